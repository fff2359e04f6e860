-- The session's row, leases, usage, and values of the store itself.

-- name: session
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen
FROM sessions WHERE sid = :sid;

-- name: save_session
-- Everything except budget and lease, which have their own statements.
UPDATE sessions SET
    last_seq = :last_seq, frontier = :frontier, watermark = :watermark, tail_start = :tail_start,
    unnoted_tokens = :unnoted_tokens, revision = :revision, prompt_version = :prompt_version,
    history_hash = :history_hash, due_at = :due_at, wake_at = :wake_at, failures = :failures,
    messages = :messages, message_tokens = :message_tokens, used_at = :used_at
WHERE sid = :sid;

-- name: save_totals
UPDATE sessions SET messages = :messages, message_tokens = :message_tokens WHERE sid = :sid;

-- name: bump_prompt_version
UPDATE sessions SET prompt_version = prompt_version + 1 WHERE sid = :sid;

-- name: set_budget
UPDATE sessions SET budget = :budget WHERE sid = :sid;

-- name: raise_beginnings
-- New sessions start above the revision and fence of a session that is about to be deleted. The row is written
-- in any case, which locks it: a session of the same name cannot start before the deletion is over.
UPDATE beginnings SET number = CASE WHEN number < :number THEN :number ELSE number END;

-- name: list_sessions
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen
FROM sessions
WHERE (:key IS NULL OR key = :key)
    AND used_hour <= :used_at / 3600000000 AND (used_at < :used_at OR used_at = :used_at AND sid > :sid)
    AND (:words IS NULL OR lower(key) LIKE :words ESCAPE '!' OR lower(owner) LIKE :words ESCAPE '!')
ORDER BY used_hour DESC, used_at DESC, sid LIMIT :limit;

-- name: list_sessions_of_owner
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen
FROM sessions
WHERE owner = :owner
    AND used_hour <= :used_at / 3600000000 AND (used_at < :used_at OR used_at = :used_at AND sid > :sid)
    AND (:words IS NULL OR lower(key) LIKE :words ESCAPE '!' OR lower(owner) LIKE :words ESCAPE '!')
ORDER BY used_hour DESC, used_at DESC, sid LIMIT :limit;

-- name: owners
-- From one owner to the next, without reading the sessions between them.
WITH RECURSIVE found (owner) AS (
    SELECT MIN(owner) FROM sessions
    UNION ALL
    SELECT (SELECT MIN(sessions.owner) FROM sessions WHERE sessions.owner > found.owner)
    FROM found WHERE found.owner IS NOT NULL
)
SELECT owner FROM found WHERE owner IS NOT NULL LIMIT :limit;

-- name: note_totals
-- Live notes begin somewhere: with that, SQLite reads their index and not every note that there ever was.
SELECT generation > 0, COUNT(*), CAST(SUM(tokens) AS BIGINT), CAST(SUM(degraded) AS BIGINT) FROM notes
WHERE sid = :sid AND status IN ('buffered', 'active') AND first_seq > -134217729 AND status = 'active'
GROUP BY generation > 0;

-- name: lease
-- Granted if free, expired or already held by this holder. A new holder gets a higher fence. What ends after
-- :far was written by a clock that was wrong.
UPDATE sessions SET
    fence = fence + CASE WHEN lease_holder = :holder THEN 0 ELSE 1 END,
    lease_holder = :holder,
    lease_until = :until
WHERE sid = :sid AND (lease_holder IS NULL OR lease_holder = :holder OR lease_until <= :now OR lease_until > :far)
RETURNING fence;

-- name: release
UPDATE sessions SET lease_holder = NULL, lease_until = NULL
WHERE sid = :sid AND fence = :fence AND lease_holder IS NOT NULL;

-- name: due
SELECT owner, key FROM sessions WHERE due_at IS NOT NULL AND (due_at <= :now OR due_at > :far)
ORDER BY due_at, sid LIMIT :limit;

-- name: delete_archive_of
DELETE FROM archive WHERE sid = :sid;

-- name: delete_notes_of
DELETE FROM notes WHERE sid = :sid;

-- name: delete_extractions_of
DELETE FROM extractions WHERE sid = :sid;

-- name: delete_changes_of
DELETE FROM changes WHERE sid = :sid;

-- name: delete_versions_of
DELETE FROM versions WHERE sid = :sid;

-- name: delete_pins_of
DELETE FROM pins WHERE sid = :sid;

-- name: delete_session
DELETE FROM sessions WHERE sid = :sid;

-- name: record_usage
INSERT INTO usage (sid, owner, model, purpose, input_tokens, output_tokens, verdict, at, spent_at, cost)
VALUES (:sid, :owner, :model, :purpose, :input_tokens, :output_tokens, :verdict, :at, :spent_at, :cost);

-- name: usage
SELECT model, purpose, input_tokens, output_tokens, verdict, at, cost FROM usage
WHERE :sid IS NULL OR sid = :sid ORDER BY number;

-- name: spent
SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE spent_at >= :since;

-- name: spent_by_session
SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE sid = :sid AND spent_at >= :since;

-- name: spent_by_owner
SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE owner = :owner AND spent_at >= :since;

-- name: usage_by_day
SELECT spent_at / 86400000000, model, purpose, COUNT(*), SUM(CASE WHEN verdict = 'accepted' THEN 0 ELSE 1 END),
    CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), SUM(cost)
FROM usage WHERE spent_at >= :since GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3;

-- name: usage_by_day_of_owner
SELECT spent_at / 86400000000, model, purpose, COUNT(*), SUM(CASE WHEN verdict = 'accepted' THEN 0 ELSE 1 END),
    CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), SUM(cost)
FROM usage WHERE owner = :owner AND spent_at >= :since GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3;

-- name: usage_by_day_of_session
SELECT spent_at / 86400000000, model, purpose, COUNT(*), SUM(CASE WHEN verdict = 'accepted' THEN 0 ELSE 1 END),
    CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), SUM(cost)
FROM usage WHERE sid = :sid AND spent_at >= :since GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3;

-- name: detach_usage
-- The cost of a deleted session still counts, without the session's name.
UPDATE usage SET sid = x'' WHERE sid = :sid;

-- name: detach_usage_of_owner
-- The same for an owner that is forgotten: the cost counts for the day only.
UPDATE usage SET sid = x'', owner = '' WHERE owner = :owner;

-- name: delete_usage
DELETE FROM usage WHERE sid = :sid;

-- name: get_value
SELECT value FROM store_values WHERE name = :name;

-- name: set_value
INSERT INTO store_values (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: add_value
INSERT INTO store_values (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING;

-- name: replace_value
UPDATE store_values SET value = :value WHERE name = :name AND value = :expected;

-- name: begin_trial
SAVEPOINT trial;

-- name: undo_trial
ROLLBACK TO SAVEPOINT trial;

-- name: end_trial
RELEASE SAVEPOINT trial;

-- name: overview
-- All sessions, those that are due, the earliest due time, those whose last attempt failed, and leased ones.
SELECT COUNT(*), COALESCE(SUM(CASE WHEN due_at <= :now THEN 1 ELSE 0 END), 0),
    MIN(CASE WHEN due_at <= :now THEN due_at END), COALESCE(SUM(CASE WHEN failures > 0 THEN 1 ELSE 0 END), 0),
    COALESCE(SUM(CASE WHEN lease_until > :now THEN 1 ELSE 0 END), 0)
FROM sessions;

-- name: spending
-- The cost since a time, of the most expensive owner, of the most expensive session, and calls of unknown cost.
SELECT
    (SELECT COALESCE(SUM(cost), 0.0) FROM usage WHERE spent_at >= :since),
    (SELECT COALESCE(MAX(total), 0.0) FROM (SELECT SUM(cost) AS total FROM usage GROUP BY owner) AS owners),
    (
        SELECT COALESCE(MAX(total), 0.0)
        FROM (SELECT SUM(cost) AS total FROM usage WHERE sid <> x'' GROUP BY sid) AS sessions
    ),
    (SELECT COUNT(*) FROM usage WHERE cost IS NULL);

-- name: newest_message
SELECT MAX(at) FROM messages;

-- name: open_sessions
SELECT owner, key FROM sessions
WHERE owner = :owner AND used_hour >= :since / 3600000000 AND used_at >= :since AND is_open
ORDER BY used_at DESC, sid LIMIT :limit;
