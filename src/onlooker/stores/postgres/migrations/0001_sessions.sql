-- The tables of the SQLite store in PostgreSQL's types: the same transactions run on both. Every key starts
-- with sid, the 128-bit hash of owner and session key. Ids compare byte by byte, as everywhere.

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
    due_at bigint,                           -- microseconds since 1970, UTC, as all times of work
    wake_at bigint NOT NULL,
    failures bigint NOT NULL DEFAULT 0,
    lease_holder text COLLATE "C",
    lease_until bigint,
    fence bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,      -- of the conversation as it stands, set aside ones too
    message_tokens bigint NOT NULL DEFAULT 0,
    used_at bigint NOT NULL,
    indexed bigint NOT NULL DEFAULT 0,       -- up to which message it can be searched,
    notes_indexed smallint NOT NULL DEFAULT 0,  -- and whether its active notes can
    items_chosen smallint NOT NULL DEFAULT 0,
    ended_seq bigint NOT NULL DEFAULT 0,     -- the last message that items were made of
    -- Indexes stand on these and not on what they are made of: a row that changes with every message is
    -- then written beside itself, without a new entry in each index.
    is_unindexed boolean NOT NULL GENERATED ALWAYS AS (indexed < last_seq OR notes_indexed = 0) STORED,
    is_open boolean NOT NULL GENERATED ALWAYS AS (last_seq > ended_seq) STORED
) WITH (fillfactor = 70);

CREATE INDEX sessions_due ON sessions (due_at, sid) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_owner ON sessions (owner);
CREATE INDEX sessions_unindexed ON sessions (owner) WHERE is_unindexed;
CREATE INDEX sessions_open ON sessions (sid) WHERE is_open;

CREATE TABLE messages (
    sid bytea NOT NULL,
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    tokens bigint NOT NULL,
    at text COLLATE "C",                     -- ISO 8601 with the message's own offset
    digest bytea NOT NULL,
    summary smallint NOT NULL DEFAULT 0,     -- 1: compaction put it in
    name text COLLATE "C" NOT NULL,
    extra text COLLATE "C",                  -- calls, answers, attachments as JSON; NULL: none
    text text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, seq)
);

CREATE UNIQUE INDEX messages_id ON messages (sid, id);

-- What is no longer in the session. A retired message may share its id with a live one (the host
-- edited it in place), and a summary its seq with the last message that it stands for.
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

-- The second guard: no two live notes of a generation start at the same message.
CREATE UNIQUE INDEX notes_live ON notes (sid, first_seq, generation) WHERE status IN ('buffered', 'active');
CREATE INDEX notes_past ON notes (sid) WHERE status IN ('superseded', 'retired');

CREATE TABLE pins (
    sid bytea NOT NULL,
    target text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, target)
);

-- Values of users' own types, each with the note that it was written with.
CREATE TABLE extractions (
    sid bytea NOT NULL,
    note text COLLATE "C" NOT NULL,
    number bigint NOT NULL,                  -- its place among those of the note
    type text COLLATE "C" NOT NULL,
    seqs text COLLATE "C" NOT NULL,          -- JSON
    said_at text COLLATE "C" NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,         -- JSON
    PRIMARY KEY (sid, note, number)
);

-- What calls cost. A deleted session's stays counted for its owner: its sid becomes empty then.
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

CREATE TABLE facts (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- One row: where revision and fence of a new session start. It rises above those of every deleted
-- session, so that a worker still busy with one cannot write into its namesake.
CREATE TABLE beginnings (
    number bigint NOT NULL
);

INSERT INTO beginnings VALUES (0);

-- The history of a session's notes: a row for each change.
CREATE TABLE changes (
    sid bytea NOT NULL,
    number bigint NOT NULL,
    at text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL,
    frontier bigint NOT NULL,
    watermark bigint NOT NULL,
    tail_start bigint NOT NULL,
    kept bigint,                             -- a host took back what is after this seq,
    taken bigint,                            -- up to this one
    statuses text COLLATE "C" NOT NULL,      -- JSON: [[note, status], …]
    PRIMARY KEY (sid, number)
);

-- Every text of notes that a person edited, the present one too.
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

-- An ISO date as microseconds since 1970; one without an offset is UTC.
CREATE FUNCTION instant(at text) RETURNS bigint LANGUAGE sql STABLE SET timezone = 'UTC'
AS $$ SELECT (extract(prompt_version FROM at::timestamptz) * 1000000)::bigint $$;
