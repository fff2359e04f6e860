-- Every key starts with sid, the 128-bit hash of owner and session key.
-- Small columns stand before the text, so that sums and digests do not read its overflow pages.

CREATE TABLE sessions (
    sid BLOB PRIMARY KEY,
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
    due_at INTEGER,                          -- microseconds since 1970, UTC, as all times of work
    wake_at INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    lease_holder TEXT,
    lease_until INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,     -- of the conversation as it stands, set aside ones too
    message_tokens INTEGER NOT NULL DEFAULT 0,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_due ON sessions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_used ON sessions (owner, used_at);

CREATE TABLE messages (
    sid BLOB NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    at TEXT,                                 -- ISO 8601 with the message's own offset
    digest BLOB NOT NULL,
    summary INTEGER NOT NULL DEFAULT 0,      -- 1: compaction put it in
    name TEXT NOT NULL,
    extra TEXT,                              -- calls, answers, attachments as JSON; NULL: none
    text TEXT NOT NULL,
    PRIMARY KEY (sid, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX messages_id ON messages (sid, id);

-- What is no longer in the session. A retired message may share its id with a live one (the host
-- edited it in place), and a summary its seq with the last message that it stands for.
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

-- The second guard: no two live notes of a generation start at the same message.
CREATE UNIQUE INDEX notes_live ON notes (sid, first_seq, generation) WHERE status IN ('buffered', 'active');
CREATE INDEX notes_past ON notes (sid) WHERE status IN ('superseded', 'retired');

CREATE TABLE pins (
    sid BLOB NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (sid, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    number INTEGER PRIMARY KEY,
    sid BLOB NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE INDEX usage_session ON usage (sid);

CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: where revision and fence of a new session start. It rises above those of every deleted
-- session, so that a worker still busy with one cannot write into its namesake.
CREATE TABLE beginnings (
    number INTEGER NOT NULL
) STRICT;

INSERT INTO beginnings VALUES (0);
