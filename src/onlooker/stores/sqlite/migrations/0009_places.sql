-- works with: 9
-- A session has a base, 2^28 from the next, and a message lies at base + seq: one integer, the table's own key.
-- With any other key SQLite keeps whole rows in the inner pages of the tree, a dozen of messages in each, so that
-- there were seven levels where there are four now, and an append wrote five pages where it writes three.

-- Else renaming a table would look at triggers that speak of the one that has just gone.
PRAGMA legacy_alter_table = ON;

CREATE TABLE new_sessions (
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
    due_at INTEGER,                          -- microseconds since 1970, UTC, as all times of work
    wake_at INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    ended_seq INTEGER NOT NULL DEFAULT 0,
    items_chosen INTEGER NOT NULL DEFAULT 0,
    lease_holder TEXT,
    lease_until INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,     -- of the conversation as it stands, set aside ones too
    message_tokens INTEGER NOT NULL DEFAULT 0,
    used_at INTEGER NOT NULL,
    indexed INTEGER NOT NULL DEFAULT 0,      -- the last message that can be found
    notes_indexed INTEGER NOT NULL DEFAULT 0,
    -- What follows from the others, for indexes that change seldom; triggers keep it.
    is_open INTEGER NOT NULL DEFAULT 0,
    is_unindexed INTEGER NOT NULL DEFAULT 0,
    used_hour INTEGER NOT NULL DEFAULT 0     -- hours since 1970
) STRICT;

INSERT INTO new_sessions (
    base, sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, ended_seq, items_chosen, lease_holder, lease_until, fence, messages,
    message_tokens, used_at, indexed, notes_indexed, is_open, is_unindexed, used_hour
)
SELECT row_number() OVER (ORDER BY sid) << 28,
    sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, ended_seq, items_chosen, lease_holder, lease_until, fence, messages,
    message_tokens, used_at, indexed, notes_indexed, is_open, is_unindexed, used_hour
FROM sessions ORDER BY sid;

-- Small columns stand before the text, so that sums and digests do not read its overflow pages.
CREATE TABLE new_messages (
    place INTEGER PRIMARY KEY CHECK (place = (slot << 28) + seq),
    slot INTEGER NOT NULL,                   -- the session's base >> 28
    seq INTEGER NOT NULL CHECK (seq BETWEEN -134217728 AND 134217727),
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    at TEXT,                                 -- ISO 8601 with the message's own offset
    digest BLOB NOT NULL,
    summary INTEGER NOT NULL DEFAULT 0,      -- 1: compaction put it in
    name TEXT NOT NULL,
    extra TEXT,                              -- calls, answers, attachments as JSON; NULL: none
    text TEXT NOT NULL
) STRICT;

INSERT INTO new_messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT base + seq, base >> 28, seq, id, role, tokens, at, digest, summary, name, extra, text
FROM new_sessions CROSS JOIN messages ON messages.sid = new_sessions.sid ORDER BY base, seq;

DROP TABLE messages;
DROP TABLE sessions;
ALTER TABLE new_sessions RENAME TO sessions;
ALTER TABLE new_messages RENAME TO messages;
PRAGMA legacy_alter_table = OFF;

CREATE UNIQUE INDEX messages_id ON messages (slot, id);

CREATE INDEX sessions_due ON sessions (due_at, sid) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_used ON sessions (owner, used_hour);
CREATE INDEX sessions_open ON sessions (used_hour) WHERE is_open;
CREATE INDEX sessions_unindexed ON sessions (owner) WHERE is_unindexed;

CREATE TRIGGER session_begun AFTER INSERT ON sessions BEGIN
    UPDATE sessions SET
        is_open = last_seq > ended_seq,
        is_unindexed = indexed < last_seq OR NOT notes_indexed,
        used_hour = used_at / 3600000000
    WHERE base = new.base;
END;

CREATE TRIGGER session_moved AFTER UPDATE OF last_seq, ended_seq, indexed, notes_indexed, used_at ON sessions
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

-- Whoever deletes a message, or takes it back, need not think of the index. One that only moves between
-- the session and its archive stays.
CREATE TRIGGER message_gone AFTER DELETE ON messages BEGIN
    DELETE FROM searchable
    WHERE sid = (SELECT sid FROM sessions WHERE base = old.slot << 28) AND kind = 'message' AND id = old.id
        AND NOT EXISTS (SELECT 1 FROM messages WHERE slot = old.slot AND id = old.id)
        AND NOT EXISTS (
            SELECT 1 FROM archive WHERE archive.sid = searchable.sid AND id = old.id AND reason <> 'retired'
        );
END;

DROP TRIGGER archived_gone;
CREATE TRIGGER archived_gone AFTER DELETE ON archive BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (
            SELECT 1 FROM messages
            WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = old.sid) AND id = old.id
        )
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;

DROP TRIGGER archived_retired;
CREATE TRIGGER archived_retired AFTER UPDATE OF reason ON archive WHEN new.reason = 'retired' BEGIN
    DELETE FROM searchable WHERE sid = old.sid AND kind = 'message' AND id = old.id
        AND NOT EXISTS (
            SELECT 1 FROM messages
            WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = old.sid) AND id = old.id
        )
        AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = old.sid AND id = old.id AND reason <> 'retired');
END;
