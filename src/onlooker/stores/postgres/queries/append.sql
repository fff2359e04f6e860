-- Appends to many sessions in one transaction. Rows come as JSON, which both sides read and write many times
-- faster than arrays; bytes in it are hexadecimal.

-- name: lock_sessions
-- In the same order everywhere, so that two batches for the same sessions cannot deadlock.
SELECT sid, messages, message_tokens, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision,
    prompt_version, budget, history_hash, due_at, wake_at, failures, ended_seq
FROM sessions WHERE sid = ANY(ARRAY(SELECT decode(json_array_elements_text(:sids::json), 'hex')))
ORDER BY sid FOR UPDATE;

-- name: locked_sessions
-- Those that another transaction has locked at the moment.
WITH free AS MATERIALIZED (
    SELECT sid FROM sessions
    WHERE sid = ANY(ARRAY(SELECT decode(json_array_elements_text(:sids::json), 'hex')))
    FOR UPDATE SKIP LOCKED
)
SELECT sid FROM sessions WHERE sid = ANY(ARRAY(SELECT decode(json_array_elements_text(:sids::json), 'hex')))
AND sid NOT IN (SELECT sid FROM free);

-- name: create_sessions
-- The row of beginnings is locked, so that a deletion of the same session is over before the new one starts.
INSERT INTO sessions (sid, owner, key, wake_at, used_at, revision, fence)
SELECT decode(new.sid, 'hex'), new.owner, new.key, :wake_at, new.used_at, beginning.number, beginning.number
FROM (SELECT number FROM beginnings FOR SHARE) AS beginning,
    json_to_recordset(:new::json) AS new (sid text, owner text, key text, used_at bigint)
ORDER BY new.sid
ON CONFLICT (sid) DO UPDATE SET used_at = sessions.used_at
RETURNING sid, messages, message_tokens, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision,
    prompt_version, budget, history_hash, due_at, wake_at, failures, ended_seq;

-- name: known_among
-- One lookup in each index for each id, whatever the statistics of the tables are.
SELECT asked.sid, asked.id
FROM (
    SELECT decode(pair ->> 0, 'hex') AS sid, pair ->> 1 AS id FROM json_array_elements(:pairs::json) AS pair
) AS asked
CROSS JOIN LATERAL (
    (SELECT 1 FROM messages WHERE sid = asked.sid AND id = asked.id LIMIT 1)
    UNION ALL
    (SELECT 1 FROM archive WHERE sid = asked.sid AND id = asked.id LIMIT 1)
) AS known;

-- name: append
-- The messages and the new progress of their sessions: one statement, since each costs a message to the server.
WITH added AS (
    INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
    SELECT decode(sid, 'hex'), seq, id, role, tokens, at, decode(digest, 'hex'), is_summary, name, extra, text
    FROM json_to_recordset(:added::json) AS new (
        sid text, seq bigint, id text, role text, tokens bigint, at text, digest text, is_summary smallint,
        name text, extra text, text text
    )
)
UPDATE sessions SET
    last_seq = new.last_seq, unnoted_tokens = new.unnoted_tokens,
    history_hash = decode(new.history_hash, 'hex'), due_at = new.due_at, messages = new.messages,
    message_tokens = new.message_tokens, used_at = new.used_at
FROM json_to_recordset(:saved::json) AS new (
    sid text, last_seq bigint, unnoted_tokens bigint, history_hash text, due_at bigint, messages bigint,
    message_tokens bigint, used_at bigint
)
WHERE sessions.sid = decode(new.sid, 'hex');
