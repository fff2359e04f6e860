-- name: lock_session
-- `session` for a transaction that writes: nobody else changes the session until it ends.
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen
FROM sessions WHERE sid = :sid FOR UPDATE;

-- name: lock
-- An advisory lock until the end of the transaction.
SELECT pg_advisory_xact_lock(:number);

-- name: create_session
-- If another transaction has just created the session, that one is returned. The row of beginnings is locked, so
-- that a deletion of the same session is over before the new one starts.
INSERT INTO sessions (sid, owner, key, wake_at, used_at, revision, fence)
SELECT :sid, :owner, :key, :wake_at, :used_at, number, number
FROM (SELECT number FROM beginnings FOR SHARE) AS beginning
ON CONFLICT (sid) DO UPDATE SET used_at = sessions.used_at
RETURNING sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen;

-- name: put_session
INSERT INTO sessions (
    sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget,
    history_hash, due_at, wake_at, failures, used_at, fence, ended_seq, items_chosen
)
SELECT :sid, :owner, :key, :last_seq, :frontier, :watermark, :tail_start, :unnoted_tokens,
    GREATEST(:revision, number), :prompt_version, :budget, :history_hash, :due_at, :wake_at, :failures,
    :used_at, number, :ended, :items_chosen
FROM (SELECT number FROM beginnings FOR SHARE) AS beginning
ON CONFLICT (sid) DO UPDATE SET
    last_seq = excluded.last_seq, frontier = excluded.frontier, watermark = excluded.watermark,
    tail_start = excluded.tail_start, unnoted_tokens = excluded.unnoted_tokens, revision = excluded.revision,
    prompt_version = excluded.prompt_version, budget = excluded.budget, history_hash = excluded.history_hash,
    due_at = excluded.due_at, wake_at = excluded.wake_at, failures = excluded.failures,
    used_at = excluded.used_at, ended_seq = excluded.ended_seq, items_chosen = excluded.items_chosen;

-- name: unnoted_tokens
SELECT COALESCE(SUM(tokens), 0)::bigint FROM messages WHERE sid = :sid AND seq > :frontier;

-- name: totals
-- The current conversation.
SELECT COUNT(*), COALESCE(SUM(tokens), 0)::bigint FROM (
    SELECT tokens FROM messages WHERE sid = :sid AND summary = 0
    UNION ALL
    SELECT tokens FROM archive WHERE sid = :sid AND summary = 0 AND reason <> 'retired'
) AS conversation;

-- name: idle
SELECT owner, key FROM sessions WHERE is_open AND used_at <= :before ORDER BY used_at, sid LIMIT :limit;

-- name: started_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at FROM messages WHERE sid = :sid AND summary = 0 ORDER BY seq LIMIT 1
    ) AS live
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = :sid AND summary = 0 AND reason <> 'retired' ORDER BY seq LIMIT 1
    ) AS archived
) AS first ORDER BY seq LIMIT 1;

-- name: last_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at FROM messages WHERE sid = :sid AND summary = 0 ORDER BY seq DESC LIMIT 1
    ) AS live
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = :sid AND summary = 0 AND reason <> 'retired'
        ORDER BY seq DESC LIMIT 1
    ) AS archived
) AS last ORDER BY seq DESC LIMIT 1;
