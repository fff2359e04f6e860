-- works with: 3
-- Full-text search over the tokens of our own tokenizer. An array and no tsvector: that one refuses texts
-- beyond a megabyte, which would then stay unindexed for ever.
CREATE TABLE searchable (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,          -- message, note, item
    owner text COLLATE "C" NOT NULL,
    sid bytea NOT NULL,
    id text COLLATE "C" NOT NULL,
    at bigint,                               -- microseconds since 1970, UTC
    length bigint NOT NULL,                  -- how many tokens
    scope text COLLATE "C" NOT NULL,         -- tokens that say whose it is, and in which session
    words text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX searchable_id ON searchable (sid, kind, id);
CREATE INDEX searchable_at ON searchable (owner, kind, at);
CREATE INDEX searchable_tokens ON searchable USING gin (string_to_array(scope || ' ' || words, ' '));

-- What ranking goes by: of each session, how many texts there are, and how many tokens in them.
CREATE TABLE search_totals (
    owner text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    sid bytea NOT NULL,
    docs bigint NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (owner, kind, sid)
);

CREATE FUNCTION searchable_added() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO search_totals AS t (owner, kind, sid, docs, length)
    VALUES (NEW.owner, NEW.kind, NEW.sid, 1, NEW.length)
    ON CONFLICT (owner, kind, sid) DO UPDATE SET docs = t.docs + 1, length = t.length + excluded.length;
    RETURN NULL;
END $$;

CREATE FUNCTION searchable_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE search_totals SET docs = docs - 1, length = search_totals.length - OLD.length
    WHERE owner = OLD.owner AND kind = OLD.kind AND sid = OLD.sid;
    DELETE FROM search_totals WHERE owner = OLD.owner AND kind = OLD.kind AND sid = OLD.sid AND docs = 0;
    RETURN NULL;
END $$;

CREATE TRIGGER searchable_added AFTER INSERT ON searchable
FOR EACH ROW EXECUTE FUNCTION searchable_added();
CREATE TRIGGER searchable_gone AFTER DELETE ON searchable
FOR EACH ROW EXECUTE FUNCTION searchable_gone();

-- Whoever deletes a message, or takes it back, need not think of the index. One that only moves between
-- the session and its archive stays.
CREATE FUNCTION message_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM searchable WHERE sid = OLD.sid AND kind = 'message' AND id = OLD.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE sid = OLD.sid AND id = OLD.id)
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = OLD.sid AND id = OLD.id AND reason <> 'retired');
    RETURN NULL;
END $$;

CREATE TRIGGER message_gone AFTER DELETE ON messages FOR EACH ROW EXECUTE FUNCTION message_gone();
CREATE TRIGGER archived_gone AFTER DELETE ON archive FOR EACH ROW EXECUTE FUNCTION message_gone();
CREATE TRIGGER archived_retired AFTER UPDATE OF reason ON archive
FOR EACH ROW WHEN (NEW.reason = 'retired') EXECUTE FUNCTION message_gone();

CREATE FUNCTION note_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM searchable WHERE sid = OLD.sid AND kind = 'note' AND id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.status = 'active' THEN
        UPDATE sessions SET notes_indexed = 0 WHERE sid = NEW.sid AND notes_indexed = 1;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER note_changed AFTER INSERT OR DELETE OR UPDATE OF status, text ON notes
FOR EACH ROW EXECUTE FUNCTION note_changed();
