-- Appends of many sessions in one transaction. Rows come as JSON, which both sides read and write many times
-- faster than arrays; bytes in it are hexadecimal.

-- name: lock_sessions
-- In one order everywhere, so that two who append to the same sessions cannot wait for each other.
SELECT sid, messages, message_tokens, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget,
    history_hash, due_at, wake_at, failures, ended_seq
FROM sessions WHERE sid = ANY(ARRAY(SELECT decode(json_array_elements_text($1::json), 'hex')))
ORDER BY sid FOR UPDATE;

-- name: held_sessions
-- Those that another transaction holds at this moment.
WITH free AS MATERIALIZED (
    SELECT sid FROM sessions WHERE sid = ANY(ARRAY(SELECT decode(json_array_elements_text($1::json), 'hex')))
    FOR UPDATE SKIP LOCKED
)
SELECT sid FROM sessions WHERE sid = ANY(ARRAY(SELECT decode(json_array_elements_text($1::json), 'hex')))
AND sid NOT IN (SELECT sid FROM free);

-- name: create_sessions
-- The row of beginnings is held, so that a deletion of the same session is over before its namesake begins.
INSERT INTO sessions (sid, owner, key, wake_at, used_at, revision, fence)
SELECT decode(new.sid, 'hex'), new.owner, new.key, $2, new.used_at, beginning.number, beginning.number
FROM (SELECT number FROM beginnings FOR SHARE) AS beginning,
    json_to_recordset($1::json) AS new (sid text, owner text, key text, used_at bigint)
ORDER BY new.sid
ON CONFLICT (sid) DO UPDATE SET used_at = sessions.used_at
RETURNING sid, messages, message_tokens, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget,
    history_hash, due_at, wake_at, failures, ended_seq;

-- name: known_among
-- One look into each index for each id, whatever the tables' statistics say.
SELECT asked.sid, asked.id
FROM (
    SELECT decode(pair ->> 0, 'hex') AS sid, pair ->> 1 AS id FROM json_array_elements($1::json) AS pair
) AS asked
CROSS JOIN LATERAL (
    (SELECT 1 FROM messages WHERE sid = asked.sid AND id = asked.id LIMIT 1)
    UNION ALL
    (SELECT 1 FROM archive WHERE sid = asked.sid AND id = asked.id LIMIT 1)
) AS known;

-- name: append
-- The messages, and where their sessions stand now: one statement, since each has its price.
WITH added AS (
    INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
    SELECT decode(sid, 'hex'), seq, id, role, tokens, at, decode(digest, 'hex'), summary, name, extra, text
    FROM json_to_recordset($1::json) AS new (
        sid text, seq bigint, id text, role text, tokens bigint, at text, digest text, summary smallint,
        name text, extra text, text text
    )
)
UPDATE sessions SET
    last_seq = new.last_seq, unnoted_tokens = new.unnoted_tokens, history_hash = decode(new.history_hash, 'hex'),
    due_at = new.due_at, messages = new.messages, message_tokens = new.message_tokens, used_at = new.used_at
FROM json_to_recordset($2::json) AS new (
    sid text, last_seq bigint, unnoted_tokens bigint, history_hash text, due_at bigint, messages bigint,
    message_tokens bigint, used_at bigint
)
WHERE sessions.sid = decode(new.sid, 'hex');
