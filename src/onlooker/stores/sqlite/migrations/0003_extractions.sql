-- works with: 3
-- Values of users' own types, each with the note that it was written with.
CREATE TABLE extractions (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    number INTEGER NOT NULL,                 -- its place among those of the note
    type TEXT NOT NULL,
    seqs TEXT NOT NULL,                      -- JSON
    said_at TEXT NOT NULL,
    made_at TEXT NOT NULL,
    value TEXT NOT NULL,                     -- JSON
    PRIMARY KEY (sid, note, number)
) STRICT, WITHOUT ROWID;

-- Whose money it was, so that what a deleted session cost stays counted: its sid becomes empty then.
ALTER TABLE usage ADD COLUMN owner TEXT NOT NULL DEFAULT '';

UPDATE usage SET owner = (SELECT owner FROM sessions WHERE sessions.sid = usage.sid)
WHERE sid IN (SELECT sid FROM sessions);

CREATE INDEX usage_owner ON usage (owner, spent_at);
