-- works with: 4
-- Full-text search. What can be found, as the tokens of our own tokenizer: SQLite's only cuts at spaces.
CREATE TABLE searchable (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                      -- message, note, item
    owner TEXT NOT NULL,
    sid BLOB NOT NULL,
    id TEXT NOT NULL,
    at INTEGER,                              -- microseconds since 1970, UTC
    length INTEGER NOT NULL,                 -- how many tokens
    scope TEXT NOT NULL,                     -- tokens that say whose it is, and in which session
    words TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX searchable_id ON searchable (sid, kind, id);
CREATE INDEX searchable_at ON searchable (owner, kind, at);

CREATE VIRTUAL TABLE search USING fts5 (
    scope, words, content = 'searchable', content_rowid = 'number',
    detail = column, columnsize = 0, tokenize = "ascii tokenchars '_'"
);

-- What ranking goes by: of each session, how many texts there are, and how many tokens in them.
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

CREATE TRIGGER searchable_gone AFTER DELETE ON searchable BEGIN
    INSERT INTO search (search, rowid, scope, words) VALUES ('delete', old.number, old.scope, old.words);
    UPDATE search_totals SET docs = docs - 1, length = length - old.length
    WHERE owner = old.owner AND kind = old.kind AND sid = old.sid;
    DELETE FROM search_totals WHERE owner = old.owner AND kind = old.kind AND sid = old.sid AND docs = 0;
END;

-- Whoever deletes a message, or takes it back, need not think of the index. One that only moves between
-- the session and its archive stays.
CREATE TRIGGER message_gone AFTER DELETE ON messages BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE sid = old.sid AND id = old.id)
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;

CREATE TRIGGER archived_gone AFTER DELETE ON archive BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE sid = old.sid AND id = old.id)
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;

CREATE TRIGGER archived_retired AFTER UPDATE OF reason ON archive WHEN new.reason = 'retired' BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE sid = old.sid AND id = old.id)
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;

-- Up to which message a session is indexed, and whether its active notes are.
ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN notes_indexed INTEGER NOT NULL DEFAULT 0;

CREATE INDEX sessions_unindexed ON sessions (owner) WHERE indexed < last_seq OR NOT notes_indexed;

CREATE TRIGGER note_added AFTER INSERT ON notes WHEN new.status = 'active' BEGIN
    UPDATE sessions SET notes_indexed = 0 WHERE sid = new.sid AND notes_indexed;
END;

CREATE TRIGGER note_changed AFTER UPDATE OF status, text ON notes BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'note' AND id = old.id;
    UPDATE sessions SET notes_indexed = 0 WHERE sid = new.sid AND notes_indexed AND new.status = 'active';
END;

CREATE TRIGGER note_gone AFTER DELETE ON notes BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'note' AND id = old.id;
END;
