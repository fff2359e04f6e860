-- works with: 3
-- Vectors of what can be found, by the embedder that made them; and the graph of notes.

-- `reached`: every text up to that number of `searchable` has its vector, or can have none.
CREATE TABLE spaces (
    space bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    dimensions bigint NOT NULL,
    reached bigint NOT NULL DEFAULT 0
);

-- A bit for each number of a vector: what a search reads of all texts of an owner, or of a session.
CREATE TABLE vector_signs (
    space bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    sid bytea NOT NULL,
    number bigint NOT NULL,
    at bigint,
    signs bytea NOT NULL,
    PRIMARY KEY (space, owner, kind, sid, number)
);

-- And in full: what it reads of the few that are likely.
CREATE TABLE vectors (
    space bigint NOT NULL,
    number bigint NOT NULL,
    vector bytea NOT NULL,                   -- four bytes for each number, the lowest first
    PRIMARY KEY (space, number)
);

-- Bits of one length, so that they can be compared.
CREATE FUNCTION bits(signs bytea) RETURNS bit varying LANGUAGE sql IMMUTABLE
AS $$ SELECT ('x' || encode(signs, 'hex'))::bit varying $$;

-- What the shared search asks for to learn whether the database counts differing bits by itself.
CREATE FUNCTION vec_version() RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'postgresql' $$;

-- A vector goes with its text.
CREATE FUNCTION vector_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM vector_signs WHERE space IN (SELECT space FROM spaces)
        AND owner = OLD.owner AND kind = OLD.kind AND sid = OLD.sid AND number = OLD.number;
    DELETE FROM vectors WHERE space IN (SELECT space FROM spaces) AND number = OLD.number;
    RETURN NULL;
END $$;

CREATE TRIGGER vector_gone AFTER DELETE ON searchable FOR EACH ROW EXECUTE FUNCTION vector_gone();

-- What notes speak of. Their other edges (in_session, follows, reflects_on) are what the notes' own table
-- says, and are read from there.
CREATE TABLE entities (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX entities_name ON entities (owner, folded);

CREATE TABLE mentions (
    sid bytea NOT NULL,
    note text COLLATE "C" NOT NULL,
    entity bigint NOT NULL REFERENCES entities,
    place bigint NOT NULL,
    PRIMARY KEY (sid, note, entity)
);

CREATE INDEX mentions_entity ON mentions (entity, sid, note);

-- Notes whose mentions are not known yet.
CREATE TABLE unlinked (
    sid bytea NOT NULL,
    note text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, note)
);

INSERT INTO unlinked (sid, note) SELECT sid, id FROM notes;

CREATE FUNCTION note_to_link() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.text = OLD.text THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM mentions WHERE sid = OLD.sid AND note = OLD.id;
    END IF;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM unlinked WHERE sid = OLD.sid AND note = OLD.id;
    ELSE
        INSERT INTO unlinked (sid, note) VALUES (NEW.sid, NEW.id) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER note_to_link AFTER INSERT OR DELETE OR UPDATE OF text ON notes
FOR EACH ROW EXECUTE FUNCTION note_to_link();

-- A name that nothing mentions any more is forgotten with the last that did. Where another transaction is
-- just about to mention it, it stays.
CREATE FUNCTION entity_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM mentions WHERE entity = OLD.entity) THEN
        DELETE FROM entities WHERE number = OLD.entity;
    END IF;
    RETURN NULL;
EXCEPTION WHEN foreign_key_violation THEN
    RETURN NULL;
END $$;

CREATE TRIGGER entity_gone AFTER DELETE ON mentions FOR EACH ROW EXECUTE FUNCTION entity_gone();
