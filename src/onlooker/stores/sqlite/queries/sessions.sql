-- name: create_session
INSERT INTO sessions (base, sid, owner, key, wake_at, used_at, revision, fence)
SELECT (SELECT COALESCE(MAX(base), 0) + 268435456 FROM sessions),
    :sid, :owner, :key, :wake_at, :used_at, number, number
FROM beginnings
RETURNING sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen;

-- name: put_session
INSERT INTO sessions (
    base, sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, used_at, fence, ended_seq, items_chosen
)
SELECT (SELECT COALESCE(MAX(base), 0) + 268435456 FROM sessions),
    :sid, :owner, :key, :last_seq, :frontier, :watermark, :tail_start, :unnoted_tokens,
    max(:revision, number), :prompt_version, :budget, :history_hash, :due_at, :wake_at, :failures, :used_at,
    number, :ended, :items_chosen
FROM beginnings WHERE true
ON CONFLICT (sid) DO UPDATE SET
    last_seq = excluded.last_seq, frontier = excluded.frontier, watermark = excluded.watermark,
    tail_start = excluded.tail_start, unnoted_tokens = excluded.unnoted_tokens, revision = excluded.revision,
    prompt_version = excluded.prompt_version, budget = excluded.budget, history_hash = excluded.history_hash,
    due_at = excluded.due_at, wake_at = excluded.wake_at, failures = excluded.failures,
    used_at = excluded.used_at, ended_seq = excluded.ended_seq, items_chosen = excluded.items_chosen;

-- name: unnoted_tokens
SELECT COALESCE(SUM(tokens), 0)
FROM sessions JOIN messages ON place > base + :frontier AND place <= base + 134217727 AND +slot = base >> 28
WHERE sid = :sid;

-- name: totals
-- The current conversation.
SELECT COUNT(*), COALESCE(SUM(tokens), 0) FROM (
    SELECT tokens
    FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = :sid AND NOT summary
    UNION ALL
    SELECT tokens FROM archive WHERE sid = :sid AND NOT summary AND reason <> 'retired'
);

-- name: idle
SELECT owner, key FROM sessions
WHERE is_open AND used_hour <= :before / 3600000000 AND used_at <= :before
ORDER BY used_hour, used_at, sid LIMIT :limit;

-- name: started_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at
        FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
        WHERE sid = :sid AND NOT summary ORDER BY place LIMIT 1
    )
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = :sid AND NOT summary AND reason <> 'retired' ORDER BY seq LIMIT 1
    )
) ORDER BY seq LIMIT 1;

-- name: last_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at
        FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
        WHERE sid = :sid AND NOT summary ORDER BY place DESC LIMIT 1
    )
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = :sid AND NOT summary AND reason <> 'retired'
        ORDER BY seq DESC LIMIT 1
    )
) ORDER BY seq DESC LIMIT 1;
