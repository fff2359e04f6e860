-- The first version of the schema. Every session is known by its sid, the 128-bit hash of owner and session key.

-- A session has a base, 2^28 from the next, and its message with a seq is stored at base + seq: one integer, the
-- table's own key. With any other key SQLite stores whole rows in the inner pages of the tree, a dozen messages in
-- each; an append would write five pages instead of three.
CREATE TABLE sessions (
    base INTEGER PRIMARY KEY CHECK (base & 268435455 = 0),
    sid BLOB NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    frontier INTEGER NOT NULL DEFAULT 0,
    watermark INTEGER NOT NULL DEFAULT 0,
    tail_start INTEGER NOT NULL DEFAULT 1,
    unnoted_tokens INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 0,
    prompt_version INTEGER NOT NULL DEFAULT 0,
    budget INTEGER NOT NULL DEFAULT 0,
    history_hash BLOB NOT NULL DEFAULT x'',
    due_at INTEGER,                          -- microseconds since 1970, UTC, like every INTEGER time
    wake_at INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    ended_seq INTEGER NOT NULL DEFAULT 0,    -- the last message that items were made from
    items_chosen INTEGER NOT NULL DEFAULT 0,
    lease_holder TEXT,
    lease_until INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,     -- of the current conversation, archived ones included
    message_tokens INTEGER NOT NULL DEFAULT 0,
    used_at INTEGER NOT NULL,
    indexed INTEGER NOT NULL DEFAULT 0,      -- the last message in the full-text index
    notes_indexed INTEGER NOT NULL DEFAULT 0, -- 0: there may be notes, or retired messages, to index
    -- Derived from the others and set by triggers. SQLite rewrites an index entry whenever one of its columns is
    -- written, changed or not, and every append writes last_seq and used_at. Indexes on columns that rarely
    -- change save those pages.
    is_open INTEGER NOT NULL DEFAULT 0,
    is_unindexed INTEGER NOT NULL DEFAULT 0,
    used_hour INTEGER NOT NULL DEFAULT 0     -- hours since 1970
) STRICT;

CREATE INDEX sessions_due ON sessions (due_at, sid) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_used ON sessions (owner, used_hour);
CREATE INDEX sessions_recent ON sessions (used_hour);
CREATE INDEX sessions_open ON sessions (used_hour) WHERE is_open;
CREATE INDEX sessions_unindexed ON sessions (owner) WHERE is_unindexed;

CREATE TRIGGER session_added AFTER INSERT ON sessions BEGIN
    UPDATE sessions SET
        is_open = last_seq > ended_seq,
        is_unindexed = indexed < last_seq OR NOT notes_indexed,
        used_hour = used_at / 3600000000
    WHERE base = new.base;
END;

CREATE TRIGGER session_changed AFTER UPDATE OF last_seq, ended_seq, indexed, notes_indexed, used_at ON sessions
WHEN new.is_open <> (new.last_seq > new.ended_seq)
    OR new.is_unindexed <> (new.indexed < new.last_seq OR NOT new.notes_indexed)
    OR new.used_hour <> new.used_at / 3600000000
BEGIN
    UPDATE sessions SET
        is_open = last_seq > ended_seq,
        is_unindexed = indexed < last_seq OR NOT notes_indexed,
        used_hour = used_at / 3600000000
    WHERE base = new.base;
END;

-- One row: the first revision and fence of a new session. It is always above those of every deleted session, so
-- that a worker that still has a deleted session cannot write into a new one of the same name.
CREATE TABLE beginnings (
    number INTEGER NOT NULL
) STRICT;

INSERT INTO beginnings VALUES (0);

-- Live messages. Small columns come before the text, so that sums and digests do not read its overflow pages.
CREATE TABLE messages (
    place INTEGER PRIMARY KEY CHECK (place = (slot << 28) + seq),
    slot INTEGER NOT NULL,                   -- the session's base >> 28
    seq INTEGER NOT NULL CHECK (seq BETWEEN -134217728 AND 134217727),
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    at TEXT,                                 -- ISO 8601 with the message's own offset, like every TEXT time
    digest BLOB NOT NULL,
    summary INTEGER NOT NULL DEFAULT 0,      -- 1: added by a compaction
    name TEXT NOT NULL,
    extra TEXT,                              -- calls, answers, attachments as JSON; NULL: none
    text TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX messages_id ON messages (slot, id);

-- Messages that left the session. A retired message may have the id of a live one (the host edited it in place),
-- and a summary the seq of the last message that it replaces.
CREATE TABLE archive (
    sid BLOB NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    reason TEXT NOT NULL CHECK (reason IN ('compacted', 'cleared', 'retired')),
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    at TEXT,
    digest BLOB NOT NULL,
    summary INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL,
    extra TEXT,
    text TEXT NOT NULL,
    PRIMARY KEY (sid, seq, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX archive_id ON archive (sid, id);
CREATE INDEX archive_retired ON archive (sid) WHERE reason = 'retired';

CREATE TABLE notes (
    sid BLOB NOT NULL,
    id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('buffered', 'active', 'superseded', 'retired')),
    tokens INTEGER NOT NULL,
    made_at TEXT NOT NULL,
    model TEXT NOT NULL,
    degraded INTEGER NOT NULL,
    sources TEXT NOT NULL,                   -- JSON: a load needs them with the note, in order
    text TEXT NOT NULL,
    PRIMARY KEY (sid, id)
) STRICT, WITHOUT ROWID;

-- A second guard: no two live notes of a generation start at the same message.
CREATE UNIQUE INDEX notes_live ON notes (sid, first_seq, generation) WHERE status IN ('buffered', 'active');
CREATE INDEX notes_past ON notes (sid) WHERE status IN ('superseded', 'retired');

CREATE TABLE pins (
    sid BLOB NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (sid, target)
) STRICT, WITHOUT ROWID;

-- Values of the user's own types, each stored with the note that it was written with.
CREATE TABLE extractions (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    number INTEGER NOT NULL,                 -- its position among those of the note
    type TEXT NOT NULL,
    seqs TEXT NOT NULL,                      -- JSON
    said_at TEXT NOT NULL,
    made_at TEXT NOT NULL,
    text TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (sid, note, number)
) STRICT, WITHOUT ROWID;

-- The history of a session's notes: one row for each change, from which the memory at any time is rebuilt.
CREATE TABLE changes (
    sid BLOB NOT NULL,
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    frontier INTEGER NOT NULL,
    watermark INTEGER NOT NULL,
    tail_start INTEGER NOT NULL,
    kept INTEGER,                            -- the host took back the messages after this seq,
    taken INTEGER,                           -- up to this one
    statuses TEXT NOT NULL,                  -- JSON: [[note, status], …]
    -- How large the session was then.
    messages INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    replies INTEGER NOT NULL DEFAULT 0,
    held INTEGER NOT NULL DEFAULT 0,
    said_at TEXT,
    PRIMARY KEY (sid, number)
) STRICT, WITHOUT ROWID;

-- Every text of an edited note, the current one included.
CREATE TABLE versions (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    number INTEGER NOT NULL,
    change INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    author TEXT NOT NULL,
    at TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (sid, note, number)
) STRICT, WITHOUT ROWID;

-- What model calls cost. When a session is deleted, its rows stay for the owner and their sid becomes empty.
CREATE TABLE usage (
    number INTEGER PRIMARY KEY,
    sid BLOB NOT NULL,
    owner TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    at TEXT NOT NULL,
    spent_at INTEGER,
    cost REAL                                -- NULL: unknown
) STRICT;

CREATE INDEX usage_session ON usage (sid);
CREATE INDEX usage_time ON usage (spent_at);
CREATE INDEX usage_owner ON usage (owner, spent_at);

CREATE TABLE store_values (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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
    tags TEXT NOT NULL,                      -- JSON, like the three below
    sources TEXT NOT NULL,
    replaces TEXT NOT NULL,
    derived_from TEXT NOT NULL,
    summary TEXT NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX items_status ON items (owner, status, pinned DESC, ranked_at DESC);
CREATE INDEX items_session ON items (sid) WHERE sid <> x'';

-- The items that a session shows, chosen once.
CREATE TABLE shown_items (
    sid BLOB NOT NULL,
    position INTEGER NOT NULL,
    owner TEXT NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (sid, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX shown_items_item ON shown_items (owner, item);

-- Full-text search: every indexed text as the tokens of Onlooker's tokenizer. FTS5 only splits at spaces.
CREATE TABLE searchable (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                      -- message, note, retired
    owner TEXT NOT NULL,
    sid BLOB NOT NULL,
    id TEXT NOT NULL,
    at INTEGER,
    length INTEGER NOT NULL,                 -- number of tokens
    scope TEXT NOT NULL,                     -- tokens that stand for its owner and its session
    words TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX searchable_id ON searchable (sid, kind, id);
CREATE INDEX searchable_at ON searchable (owner, kind, at);

CREATE VIRTUAL TABLE search USING fts5 (
    scope, words, content = 'searchable', content_rowid = 'number',
    detail = column, columnsize = 0, tokenize = "ascii tokenchars '_'"
);

-- For ranking: how many texts each session has, and how many tokens in them.
CREATE TABLE search_totals (
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    sid BLOB NOT NULL,
    docs INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (owner, kind, sid)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER searchable_added AFTER INSERT ON searchable BEGIN
    INSERT INTO search (rowid, scope, words) VALUES (new.number, new.scope, new.words);
    INSERT INTO search_totals (owner, kind, sid, docs, length)
    VALUES (new.owner, new.kind, new.sid, 1, new.length)
    ON CONFLICT DO UPDATE SET docs = docs + 1, length = length + excluded.length;
END;

CREATE TRIGGER searchable_deleted AFTER DELETE ON searchable BEGIN
    INSERT INTO search (search, rowid, scope, words) VALUES ('delete', old.number, old.scope, old.words);
    UPDATE search_totals SET docs = docs - 1, length = length - old.length
    WHERE owner = old.owner AND kind = old.kind AND sid = old.sid;
    DELETE FROM search_totals WHERE owner = old.owner AND kind = old.kind AND sid = old.sid AND docs = 0;
END;

-- A message that is deleted or retired leaves the index. One that only moves between the session and its archive
-- stays. A retired one is indexed anew, by its seq: its id may be in use again.
CREATE TRIGGER message_deleted AFTER DELETE ON messages BEGIN
    DELETE FROM searchable
    WHERE sid = (SELECT sid FROM sessions WHERE base = old.slot << 28) AND kind = 'message' AND id = old.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE slot = old.slot AND id = old.id)
        AND NOT EXISTS (
            SELECT 1 FROM archive WHERE archive.sid = searchable.sid AND id = old.id AND reason <> 'retired'
        );
END;

CREATE TRIGGER archived_deleted AFTER DELETE ON archive BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (
            SELECT 1 FROM messages
            WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = old.sid) AND id = old.id
        )
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;

CREATE TRIGGER archived_retired AFTER UPDATE OF reason ON archive WHEN new.reason = 'retired' BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (
            SELECT 1 FROM messages
            WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = old.sid) AND id = old.id
        )
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;

CREATE TRIGGER retired_added AFTER INSERT ON archive WHEN new.reason = 'retired' BEGIN
    UPDATE sessions SET notes_indexed = 0 WHERE sid = new.sid AND notes_indexed;
END;

CREATE TRIGGER retired_changed AFTER UPDATE OF reason ON archive WHEN new.reason = 'retired' BEGIN
    UPDATE sessions SET notes_indexed = 0 WHERE sid = new.sid AND notes_indexed;
END;

CREATE TRIGGER retired_deleted AFTER DELETE ON archive WHEN old.reason = 'retired' BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'retired' AND id = CAST(old.seq AS TEXT);
END;

CREATE TRIGGER note_added AFTER INSERT ON notes WHEN new.status = 'active' BEGIN
    UPDATE sessions SET notes_indexed = 0 WHERE sid = new.sid AND notes_indexed;
END;

CREATE TRIGGER note_changed AFTER UPDATE OF status, text ON notes BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'note' AND id = old.id;
    UPDATE sessions SET notes_indexed = 0 WHERE sid = new.sid AND notes_indexed AND new.status = 'active';
END;

CREATE TRIGGER note_deleted AFTER DELETE ON notes BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'note' AND id = old.id;
END;

-- Vectors of indexed texts, one space for each embedder. Every text up to the number `reached` has its vector, or
-- cannot have one.
CREATE TABLE spaces (
    space INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    reached INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One bit for each number of a vector. A search reads those of a whole owner or session, so they are stored
-- together in that order.
CREATE TABLE vector_signs (
    space INTEGER NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    sid BLOB NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER,
    signs BLOB NOT NULL,
    PRIMARY KEY (space, owner, kind, sid, number)
) STRICT, WITHOUT ROWID;

-- The full vectors, of which a search reads the few likely ones.
CREATE TABLE vectors (
    space INTEGER NOT NULL,
    number INTEGER NOT NULL,
    vector BLOB NOT NULL,                    -- four bytes for each number, little-endian
    PRIMARY KEY (space, number)
) STRICT, WITHOUT ROWID;

-- A vector is deleted with its text. SQLite reuses a number once the highest ones are deleted.
CREATE TRIGGER vector_deleted AFTER DELETE ON searchable BEGIN
    DELETE FROM vector_signs WHERE space IN (SELECT space FROM spaces)
        AND owner = old.owner AND kind = old.kind AND sid = old.sid AND number = old.number;
    DELETE FROM vectors WHERE space IN (SELECT space FROM spaces) AND number = old.number;
    UPDATE spaces SET reached = (SELECT coalesce(max(number), 0) FROM searchable)
    WHERE reached > (SELECT coalesce(max(number), 0) FROM searchable);
END;

-- What notes mention. The other edges of the graph (in_session, follows, reflects_on) are read from the notes.
CREATE TABLE entities (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    folded TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX entities_name ON entities (owner, folded);

CREATE TABLE mentions (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    entity INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (sid, note, entity)
) STRICT, WITHOUT ROWID;

CREATE INDEX mentions_entity ON mentions (entity, sid, note);

-- Notes whose mentions are not stored yet.
CREATE TABLE unlinked (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (sid, note)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER note_to_link AFTER INSERT ON notes BEGIN
    INSERT OR IGNORE INTO unlinked (sid, note) VALUES (new.sid, new.id);
END;

CREATE TRIGGER note_to_link_again AFTER UPDATE OF text ON notes WHEN new.text <> old.text BEGIN
    DELETE FROM mentions WHERE sid = old.sid AND note = old.id;
    INSERT OR IGNORE INTO unlinked (sid, note) VALUES (new.sid, new.id);
END;

CREATE TRIGGER note_unlinked AFTER DELETE ON notes BEGIN
    DELETE FROM mentions WHERE sid = old.sid AND note = old.id;
    DELETE FROM unlinked WHERE sid = old.sid AND note = old.id;
END;

-- An entity is deleted with its last mention.
CREATE TRIGGER mention_deleted AFTER DELETE ON mentions
WHEN NOT EXISTS (SELECT 1 FROM mentions WHERE entity = old.entity) BEGIN
    DELETE FROM entities WHERE number = old.entity;
END;
