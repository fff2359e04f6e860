-- name: session
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE sid = $1;

-- name: lock_session
-- What `session` is for whoever writes: nobody else changes the session until the transaction ends.
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE sid = $1 FOR UPDATE;

-- name: create_session
-- Where another made it a moment ago, that one. The row of beginnings is held, so that a deletion of the
-- same session is over before its namesake begins.
INSERT INTO sessions (sid, owner, key, wake_at, used_at, revision, fence)
SELECT $1, $2, $3, $4, $5, number, number FROM (SELECT number FROM beginnings FOR SHARE) AS beginning
ON CONFLICT (sid) DO UPDATE SET used_at = sessions.used_at
RETURNING sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen;

-- name: save_session
-- Everything but budget and lease, which have statements of their own.
UPDATE sessions SET
    last_seq = %(last_seq)s, frontier = %(frontier)s, watermark = %(watermark)s,
    tail_start = %(tail_start)s, unnoted_tokens = %(unnoted_tokens)s, revision = %(revision)s,
    prompt_version = %(prompt_version)s, history_hash = %(history_hash)s, due_at = %(due_at)s, wake_at = %(wake_at)s,
    failures = %(failures)s, messages = %(messages)s, message_tokens = %(message_tokens)s,
    used_at = %(used_at)s
WHERE sid = %(sid)s;

-- name: unnoted_tokens
SELECT COALESCE(SUM(tokens), 0)::bigint FROM messages WHERE sid = $1 AND seq > $2;

-- name: totals
-- The conversation as it stands.
SELECT COUNT(*), COALESCE(SUM(tokens), 0)::bigint FROM (
    SELECT tokens FROM messages WHERE sid = $1 AND summary = 0
    UNION ALL
    SELECT tokens FROM archive WHERE sid = $1 AND summary = 0 AND reason <> 'retired'
) AS said;

-- name: grow_epoch
UPDATE sessions SET prompt_version = prompt_version + 1 WHERE sid = $1;

-- name: set_budget
UPDATE sessions SET budget = $1 WHERE sid = $2;

-- name: lease
-- Free, expired, or already this holder's; a new hand gets a higher fence.
UPDATE sessions SET
    fence = fence + (lease_holder IS DISTINCT FROM %(holder)s)::int,
    lease_holder = %(holder)s,
    lease_until = %(until)s
WHERE sid = %(sid)s
    AND (lease_holder IS NULL OR lease_holder = %(holder)s OR lease_until <= %(now)s)
RETURNING fence;

-- name: release
UPDATE sessions SET lease_holder = NULL, lease_until = NULL
WHERE sid = $1 AND fence = $2 AND lease_holder IS NOT NULL;

-- name: due
SELECT owner, key FROM sessions WHERE due_at IS NOT NULL AND due_at <= $1 ORDER BY due_at, sid LIMIT $2;

-- name: list_sessions
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE (%(key)s::text IS NULL OR key = %(key)s::text)
ORDER BY used_at DESC, sid LIMIT NULLIF(%(limit)s::bigint, -1);

-- name: list_sessions_of_owner
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE owner = %(owner)s AND (%(key)s::text IS NULL OR key = %(key)s::text)
ORDER BY used_at DESC, sid LIMIT NULLIF(%(limit)s::bigint, -1);

-- name: note_totals
SELECT generation > 0, COUNT(*), SUM(tokens)::bigint FROM notes
WHERE sid = $1 AND status IN ('buffered', 'active') AND status = 'active' GROUP BY generation > 0;

-- name: started_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at FROM messages WHERE sid = $1 AND summary = 0 ORDER BY seq LIMIT 1
    ) AS live
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = $1 AND summary = 0 AND reason <> 'retired' ORDER BY seq LIMIT 1
    ) AS aside
) AS first ORDER BY seq LIMIT 1;

-- name: last_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at FROM messages WHERE sid = $1 AND summary = 0 ORDER BY seq DESC LIMIT 1
    ) AS live
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = $1 AND summary = 0 AND reason <> 'retired'
        ORDER BY seq DESC LIMIT 1
    ) AS aside
) AS last ORDER BY seq DESC LIMIT 1;

-- name: delete_messages
DELETE FROM messages WHERE sid = $1;

-- name: raise_beginnings
-- Above the revision and fence of a session that is about to go.
UPDATE beginnings
SET number = GREATEST(number, (SELECT GREATEST(revision, fence) + 1 FROM sessions WHERE sid = $1));

-- name: record_usage
INSERT INTO usage (sid, owner, model, purpose, input_tokens, output_tokens, verdict, at, spent_at, cost)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: detach_usage
-- What a deleted session cost stays counted, without saying which session it was.
UPDATE usage SET sid = '' WHERE sid = $1;

-- name: usage
SELECT model, purpose, input_tokens, output_tokens, verdict, at, cost FROM usage
WHERE $1::bytea IS NULL OR sid = $1::bytea ORDER BY number;

-- name: spent
SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE spent_at >= $1;

-- name: spent_by_session
SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE sid = $1 AND spent_at >= $2;

-- name: spent_by_owner
SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE owner = $1 AND spent_at >= $2;

-- name: get_value
SELECT value FROM facts WHERE name = $1;

-- name: set_value
INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
