-- The first version of the schema: the tables of the SQLite store in PostgreSQL's types, since the same
-- transactions run on both. Every key starts with sid, the 128-bit hash of owner and session key. Ids compare byte
-- by byte, as in SQLite.

CREATE TABLE sessions (
    sid bytea PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL DEFAULT 0,
    frontier bigint NOT NULL DEFAULT 0,
    watermark bigint NOT NULL DEFAULT 0,
    tail_start bigint NOT NULL DEFAULT 1,
    unnoted_tokens bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    prompt_version bigint NOT NULL DEFAULT 0,
    budget bigint NOT NULL DEFAULT 0,
    history_hash bytea NOT NULL DEFAULT '',
    due_at bigint,                           -- microseconds since 1970, UTC, like every bigint time
    wake_at bigint NOT NULL,
    failures bigint NOT NULL DEFAULT 0,
    lease_holder text COLLATE "C",
    lease_until bigint,
    fence bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,      -- of the current conversation, archived ones included
    message_tokens bigint NOT NULL DEFAULT 0,
    used_at bigint NOT NULL,
    indexed bigint NOT NULL DEFAULT 0,       -- the last message in the full-text index
    notes_indexed smallint NOT NULL DEFAULT 0, -- 0: there may be notes, or retired messages, to index
    items_chosen smallint NOT NULL DEFAULT 0,
    ended_seq bigint NOT NULL DEFAULT 0,     -- the last message that items were made from
    -- The indexes use these instead of the columns that they derive from: an append then updates the row in place
    -- (HOT), without a new entry in each index.
    is_unindexed boolean NOT NULL GENERATED ALWAYS AS (indexed < last_seq OR notes_indexed = 0) STORED,
    is_open boolean NOT NULL GENERATED ALWAYS AS (last_seq > ended_seq) STORED,
    used_hour bigint NOT NULL GENERATED ALWAYS AS (used_at / 3600000000) STORED
) WITH (fillfactor = 70);

CREATE INDEX sessions_due ON sessions (due_at, sid) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_used ON sessions (owner, used_hour);
CREATE INDEX sessions_recent ON sessions (used_hour);
CREATE INDEX sessions_unindexed ON sessions (owner) WHERE is_unindexed;
CREATE INDEX sessions_open ON sessions (sid) WHERE is_open;

CREATE TABLE messages (
    sid bytea NOT NULL,
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    tokens bigint NOT NULL,
    at text COLLATE "C",                     -- ISO 8601 with the message's own offset, like every text time
    digest bytea NOT NULL,
    summary smallint NOT NULL DEFAULT 0,     -- 1: added by a compaction
    name text COLLATE "C" NOT NULL,
    extra text COLLATE "C",                  -- calls, answers, attachments as JSON; NULL: none
    text text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, seq)
);

CREATE UNIQUE INDEX messages_id ON messages (sid, id);

-- Messages that left the session. A retired message may have the id of a live one (the host edited it in place),
-- and a summary the seq of the last message that it replaces.
CREATE TABLE archive (
    sid bytea NOT NULL,
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL CHECK (reason IN ('compacted', 'cleared', 'retired')),
    role text COLLATE "C" NOT NULL,
    tokens bigint NOT NULL,
    at text COLLATE "C",
    digest bytea NOT NULL,
    summary smallint NOT NULL DEFAULT 0,
    name text COLLATE "C" NOT NULL,
    extra text COLLATE "C",
    text text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, seq, id)
);

CREATE INDEX archive_id ON archive (sid, id);
CREATE INDEX archive_retired ON archive (sid) WHERE reason = 'retired';

CREATE TABLE notes (
    sid bytea NOT NULL,
    id text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('buffered', 'active', 'superseded', 'retired')),
    tokens bigint NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    degraded smallint NOT NULL,
    sources text COLLATE "C" NOT NULL,       -- JSON: a load needs them with the note, in order
    text text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, id)
);

-- A second guard: no two live notes of a generation start at the same message.
CREATE UNIQUE INDEX notes_live ON notes (sid, first_seq, generation) WHERE status IN ('buffered', 'active');
CREATE INDEX notes_past ON notes (sid) WHERE status IN ('superseded', 'retired');

CREATE TABLE pins (
    sid bytea NOT NULL,
    target text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, target)
);

-- Values of the user's own types, each stored with the note that it was written with.
CREATE TABLE extractions (
    sid bytea NOT NULL,
    note text COLLATE "C" NOT NULL,
    number bigint NOT NULL,                  -- its position among those of the note
    type text COLLATE "C" NOT NULL,
    seqs text COLLATE "C" NOT NULL,          -- JSON
    said_at text COLLATE "C" NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,          -- JSON
    PRIMARY KEY (sid, note, number)
);

-- What model calls cost. When a session is deleted, its rows stay for the owner and their sid becomes empty.
CREATE TABLE usage (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sid bytea NOT NULL,
    owner text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    purpose text COLLATE "C" NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    verdict text COLLATE "C" NOT NULL,
    at text COLLATE "C" NOT NULL,
    spent_at bigint,
    cost double precision
);

CREATE INDEX usage_session ON usage (sid);
CREATE INDEX usage_time ON usage (spent_at);
CREATE INDEX usage_owner ON usage (owner, spent_at);

CREATE TABLE store_values (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- One row: the first revision and fence of a new session. It is always above those of every deleted session, so
-- that a worker that still has a deleted session cannot write into a new one of the same name.
CREATE TABLE beginnings (
    number bigint NOT NULL
);

INSERT INTO beginnings VALUES (0);

-- The history of a session's notes: one row for each change, from which the memory at any time is rebuilt.
CREATE TABLE changes (
    sid bytea NOT NULL,
    number bigint NOT NULL,
    at text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL,
    frontier bigint NOT NULL,
    watermark bigint NOT NULL,
    tail_start bigint NOT NULL,
    kept bigint,                             -- the host took back the messages after this seq,
    taken bigint,                            -- up to this one
    statuses text COLLATE "C" NOT NULL,      -- JSON: [[note, status], …]
    -- How large the session was then.
    messages bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    replies bigint NOT NULL DEFAULT 0,
    held bigint NOT NULL DEFAULT 0,
    said_at text COLLATE "C",
    PRIMARY KEY (sid, number)
);

-- Every text of an edited note, the current one included.
CREATE TABLE versions (
    sid bytea NOT NULL,
    note text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    change bigint NOT NULL,
    tokens bigint NOT NULL,
    author text COLLATE "C" NOT NULL,
    at text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, note, number)
);

-- An ISO date as microseconds since 1970; without an offset it is UTC.
CREATE FUNCTION instant(at text) RETURNS bigint LANGUAGE sql STABLE SET timezone = 'UTC'
AS $$ SELECT (extract(epoch FROM at::timestamptz) * 1000000)::bigint $$;

-- Facts that outlive their session, by owner.
CREATE TABLE items (
    owner text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('live', 'ended', 'archived')),
    pinned smallint NOT NULL DEFAULT 0,
    uses bigint NOT NULL DEFAULT 0,
    ranked_at bigint NOT NULL,               -- last used, or made
    type text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    said_at text COLLATE "C",
    valid_from text COLLATE "C",
    ended_at text COLLATE "C",
    expires_at text COLLATE "C",
    last_used_at text COLLATE "C",
    superseded_by text COLLATE "C" NOT NULL DEFAULT '',
    sid bytea NOT NULL,                      -- the session that it was made in; empty: none
    session text COLLATE "C" NOT NULL,       -- and its key
    tags text COLLATE "C" NOT NULL,          -- JSON, like the three below
    sources text COLLATE "C" NOT NULL,
    replaces text COLLATE "C" NOT NULL,
    derived_from text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX items_status ON items (owner, status, pinned DESC, ranked_at DESC);
CREATE INDEX items_session ON items (sid) WHERE sid <> '';

-- The items that a session shows, chosen once.
CREATE TABLE shown_items (
    sid bytea NOT NULL,
    position bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, position)
);

CREATE INDEX shown_items_item ON shown_items (owner, item);

-- Full-text search over the tokens of Onlooker's tokenizer. An array instead of a tsvector, which refuses texts
-- above a megabyte.
CREATE TABLE searchable (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,          -- message, note, retired
    owner text COLLATE "C" NOT NULL,
    sid bytea NOT NULL,
    id text COLLATE "C" NOT NULL,
    at bigint,
    length bigint NOT NULL,                  -- number of tokens
    scope text COLLATE "C" NOT NULL,         -- tokens that stand for its owner and its session
    words text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX searchable_id ON searchable (sid, kind, id);
CREATE INDEX searchable_at ON searchable (owner, kind, at);
CREATE INDEX searchable_tokens ON searchable USING gin (string_to_array(scope || ' ' || words, ' '));

-- For ranking: how many texts each session has, and how many tokens in them.
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

CREATE FUNCTION searchable_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE search_totals SET docs = docs - 1, length = search_totals.length - OLD.length
    WHERE owner = OLD.owner AND kind = OLD.kind AND sid = OLD.sid;
    DELETE FROM search_totals WHERE owner = OLD.owner AND kind = OLD.kind AND sid = OLD.sid AND docs = 0;
    RETURN NULL;
END $$;

CREATE TRIGGER searchable_added AFTER INSERT ON searchable
FOR EACH ROW EXECUTE FUNCTION searchable_added();
CREATE TRIGGER searchable_deleted AFTER DELETE ON searchable
FOR EACH ROW EXECUTE FUNCTION searchable_deleted();

-- A message that is deleted or retired leaves the index. One that only moves between the session and its archive
-- stays. A retired one is indexed anew, by its seq: its id may be in use again.
CREATE FUNCTION message_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM searchable WHERE sid = OLD.sid AND kind = 'message' AND id = OLD.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE sid = OLD.sid AND id = OLD.id)
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = OLD.sid AND id = OLD.id AND reason <> 'retired');
    RETURN NULL;
END $$;

CREATE TRIGGER message_deleted AFTER DELETE ON messages FOR EACH ROW EXECUTE FUNCTION message_deleted();
CREATE TRIGGER archived_deleted AFTER DELETE ON archive FOR EACH ROW EXECUTE FUNCTION message_deleted();
CREATE TRIGGER archived_retired AFTER UPDATE OF reason ON archive
FOR EACH ROW WHEN (NEW.reason = 'retired') EXECUTE FUNCTION message_deleted();

CREATE FUNCTION retired_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM searchable WHERE sid = OLD.sid AND kind = 'retired' AND id = OLD.seq::text;
    ELSE
        UPDATE sessions SET notes_indexed = 0 WHERE sid = NEW.sid AND notes_indexed = 1;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER retired_changed AFTER INSERT OR UPDATE OF reason ON archive
FOR EACH ROW WHEN (NEW.reason = 'retired') EXECUTE FUNCTION retired_changed();
CREATE TRIGGER retired_deleted AFTER DELETE ON archive
FOR EACH ROW WHEN (OLD.reason = 'retired') EXECUTE FUNCTION retired_changed();

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

-- Vectors of indexed texts, one space for each embedder. Every text up to the number `reached` has its vector, or
-- cannot have one.
CREATE TABLE spaces (
    space bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    dimensions bigint NOT NULL,
    reached bigint NOT NULL DEFAULT 0
);

-- One bit for each number of a vector. A search reads those of a whole owner or session.
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

-- The full vectors, of which a search reads the few likely ones.
CREATE TABLE vectors (
    space bigint NOT NULL,
    number bigint NOT NULL,
    vector bytea NOT NULL,                   -- four bytes for each number, little-endian
    PRIMARY KEY (space, number)
);

-- As bits, which can be compared.
CREATE FUNCTION bits(signs bytea) RETURNS bit varying LANGUAGE sql IMMUTABLE
AS $$ SELECT ('x' || encode(signs, 'hex'))::bit varying $$;

-- A vector is deleted with its text.
CREATE FUNCTION vector_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM vector_signs WHERE space IN (SELECT space FROM spaces)
        AND owner = OLD.owner AND kind = OLD.kind AND sid = OLD.sid AND number = OLD.number;
    DELETE FROM vectors WHERE space IN (SELECT space FROM spaces) AND number = OLD.number;
    RETURN NULL;
END $$;

CREATE TRIGGER vector_deleted AFTER DELETE ON searchable FOR EACH ROW EXECUTE FUNCTION vector_deleted();

-- What notes mention. The other edges of the graph (in_session, follows, reflects_on) are read from the notes.
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
    position bigint NOT NULL,
    PRIMARY KEY (sid, note, entity)
);

CREATE INDEX mentions_entity ON mentions (entity, sid, note);

-- Notes whose mentions are not stored yet.
CREATE TABLE unlinked (
    sid bytea NOT NULL,
    note text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, note)
);

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

-- An entity is deleted with its last mention, unless another transaction is about to mention it.
CREATE FUNCTION mention_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM mentions WHERE entity = OLD.entity) THEN
        DELETE FROM entities WHERE number = OLD.entity;
    END IF;
    RETURN NULL;
EXCEPTION WHEN foreign_key_violation THEN
    RETURN NULL;
END $$;

CREATE TRIGGER mention_deleted AFTER DELETE ON mentions FOR EACH ROW EXECUTE FUNCTION mention_deleted();

-- Workers, for `onlooker status --workers`. While there are none, due sessions are not put into the queue.
CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    pid bigint NOT NULL,
    concurrency bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    running bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0
);
