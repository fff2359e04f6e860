-- works with: 5
-- Facts that outlive their session, by owner.
CREATE TABLE items (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('live', 'ended', 'archived')),
    pinned INTEGER NOT NULL DEFAULT 0,
    uses INTEGER NOT NULL DEFAULT 0,
    ranked_at INTEGER NOT NULL,              -- last used, or made
    type TEXT NOT NULL,
    origin TEXT NOT NULL,
    made_at TEXT NOT NULL,
    said_at TEXT,
    valid_from TEXT,
    ended_at TEXT,
    expires_at TEXT,
    last_used_at TEXT,
    superseded_by TEXT NOT NULL DEFAULT '',
    sid BLOB NOT NULL,                       -- the session that it was made in; empty: none
    session TEXT NOT NULL,                   -- and its key
    tags TEXT NOT NULL,                      -- JSON, as the three below
    sources TEXT NOT NULL,
    replaces TEXT NOT NULL,
    derived_from TEXT NOT NULL,
    summary TEXT NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX items_status ON items (owner, status, pinned DESC, ranked_at DESC);
CREATE INDEX items_session ON items (sid) WHERE sid <> x'';

-- Which of its owner's items a session shows, chosen once.
CREATE TABLE shown_items (
    sid BLOB NOT NULL,
    place INTEGER NOT NULL,
    owner TEXT NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (sid, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX shown_items_item ON shown_items (owner, item);

ALTER TABLE sessions ADD COLUMN items_chosen INTEGER NOT NULL DEFAULT 0;
-- The last message that items were made of. What was there before this version counts as ended, since
-- nobody expects an upgrade to ask a model about every old session.
ALTER TABLE sessions ADD COLUMN ended_seq INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET ended_seq = last_seq;

CREATE INDEX sessions_open ON sessions (used_at) WHERE last_seq > ended_seq;
