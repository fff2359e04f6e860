-- works with: 7
-- Vectors of what can be found, by the embedder that made them; and the graph of notes.

-- `reached`: every text up to that number of `searchable` has its vector, or can have none.
CREATE TABLE spaces (
    space INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    reached INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A bit for each number of a vector: what a search reads of all texts of an owner, or of a session, and so
-- stands together for both.
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

-- And in full: what it reads of the few that are likely.
CREATE TABLE vectors (
    space INTEGER NOT NULL,
    number INTEGER NOT NULL,
    vector BLOB NOT NULL,                    -- four bytes for each number, the lowest first
    PRIMARY KEY (space, number)
) STRICT, WITHOUT ROWID;

-- A vector goes with its text. A number may be given again once the last ones are gone.
CREATE TRIGGER vector_gone AFTER DELETE ON searchable BEGIN
    DELETE FROM vector_signs WHERE space IN (SELECT space FROM spaces)
        AND owner = old.owner AND kind = old.kind AND sid = old.sid AND number = old.number;
    DELETE FROM vectors WHERE space IN (SELECT space FROM spaces) AND number = old.number;
    UPDATE spaces SET reached = (SELECT coalesce(max(number), 0) FROM searchable)
    WHERE reached > (SELECT coalesce(max(number), 0) FROM searchable);
END;

-- What notes speak of. Their other edges (in_session, follows, reflects_on) are what the notes' own table
-- says, and are read from there.
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
    place INTEGER NOT NULL,
    PRIMARY KEY (sid, note, entity)
) STRICT, WITHOUT ROWID;

CREATE INDEX mentions_entity ON mentions (entity, sid, note);

-- Notes whose mentions are not known yet.
CREATE TABLE unlinked (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (sid, note)
) STRICT, WITHOUT ROWID;

INSERT INTO unlinked (sid, note) SELECT sid, id FROM notes;

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

-- A name that nothing mentions any more is forgotten with the last that did.
CREATE TRIGGER entity_gone AFTER DELETE ON mentions
WHEN NOT EXISTS (SELECT 1 FROM mentions WHERE entity = old.entity) BEGIN
    DELETE FROM entities WHERE number = old.entity;
END;
