-- name: session
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE sid = ?;

-- name: create_session
INSERT INTO sessions (base, sid, owner, key, wake_at, used_at, revision, fence)
SELECT (SELECT COALESCE(MAX(base), 0) + 268435456 FROM sessions), ?, ?, ?, ?, ?, number, number FROM beginnings
RETURNING sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen;

-- name: save_session
-- Everything but budget and lease, which have statements of their own.
UPDATE sessions SET
    last_seq = :last_seq, frontier = :frontier, watermark = :watermark, tail_start = :tail_start,
    unnoted_tokens = :unnoted_tokens, revision = :revision, prompt_version = :prompt_version, history_hash = :history_hash, due_at = :due_at,
    wake_at = :wake_at, failures = :failures,
    messages = :messages, message_tokens = :message_tokens, used_at = :used_at
WHERE sid = :sid;

-- name: unnoted_tokens
SELECT COALESCE(SUM(tokens), 0)
FROM sessions JOIN messages ON place > base + ?2 AND place <= base + 134217727 AND +slot = base >> 28
WHERE sid = ?1;

-- name: totals
-- The conversation as it stands.
SELECT COUNT(*), COALESCE(SUM(tokens), 0) FROM (
    SELECT tokens
    FROM sessions JOIN messages
        ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = ?1 AND NOT summary
    UNION ALL
    SELECT tokens FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
);

-- name: grow_epoch
UPDATE sessions SET prompt_version = prompt_version + 1 WHERE sid = ?;

-- name: set_budget
UPDATE sessions SET budget = ? WHERE sid = ?;

-- name: lease
-- Free, expired, or already this holder's; a new hand gets a higher fence.
UPDATE sessions SET
    fence = fence + (lease_holder IS NOT :holder),
    lease_holder = :holder,
    lease_until = :until
WHERE sid = :sid AND (lease_holder IS NULL OR lease_holder = :holder OR lease_until <= :now)
RETURNING fence;

-- name: release
UPDATE sessions SET lease_holder = NULL, lease_until = NULL
WHERE sid = ? AND fence = ? AND lease_holder IS NOT NULL;

-- name: due
SELECT owner, key FROM sessions WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at, sid LIMIT ?;

-- name: list_sessions
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE (:key IS NULL OR key = :key) ORDER BY used_at DESC, sid LIMIT :limit;

-- name: list_sessions_of_owner
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen
FROM sessions WHERE owner = :owner AND (:key IS NULL OR key = :key)
ORDER BY used_hour DESC, used_at DESC, sid LIMIT :limit;

-- name: note_totals
SELECT generation > 0, COUNT(*), SUM(tokens) FROM notes
WHERE sid = ? AND status IN ('buffered', 'active') AND status = 'active' GROUP BY generation > 0;

-- name: started_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at
        FROM sessions JOIN messages
            ON place BETWEEN base - 134217728 AND base + 134217727
        WHERE sid = ?1 AND NOT summary ORDER BY place LIMIT 1
    )
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired' ORDER BY seq LIMIT 1
    )
) ORDER BY seq LIMIT 1;

-- name: last_at
SELECT at FROM (
    SELECT seq, at FROM (
        SELECT seq, at
        FROM sessions JOIN messages
            ON place BETWEEN base - 134217728 AND base + 134217727
        WHERE sid = ?1 AND NOT summary ORDER BY place DESC LIMIT 1
    )
    UNION ALL
    SELECT seq, at FROM (
        SELECT seq, at FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
        ORDER BY seq DESC LIMIT 1
    )
) ORDER BY seq DESC LIMIT 1;

-- name: delete_messages
DELETE FROM messages
WHERE place BETWEEN (SELECT base FROM sessions WHERE sid = ?1) - 134217728
    AND (SELECT base FROM sessions WHERE sid = ?1) + 134217727;

-- name: raise_beginnings
-- Above the revision and fence of a session that is about to go.
UPDATE beginnings SET number = max(number, (SELECT max(revision, fence) + 1 FROM sessions WHERE sid = ?));

-- name: record_usage
INSERT INTO usage (sid, owner, model, purpose, input_tokens, output_tokens, verdict, at, spent_at, cost)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: detach_usage
-- What a deleted session cost stays counted, without saying which session it was.
UPDATE usage SET sid = x'' WHERE sid = ?;

-- name: usage
SELECT model, purpose, input_tokens, output_tokens, verdict, at, cost FROM usage
WHERE ?1 IS NULL OR sid = ?1 ORDER BY number;

-- name: spent
SELECT total(cost) FROM usage WHERE spent_at >= ?;

-- name: spent_by_session
SELECT total(cost) FROM usage WHERE sid = ? AND spent_at >= ?;

-- name: spent_by_owner
SELECT total(cost) FROM usage WHERE owner = ? AND spent_at >= ?;

-- name: get_value
SELECT value FROM facts WHERE name = ?;

-- name: set_value
INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
