-- name: worker_seen
INSERT INTO workers (id, host, pid, concurrency, running, done, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET
    seen_at = now(), running = excluded.running, done = excluded.done, failed = excluded.failed;

-- name: worker_gone
DELETE FROM workers WHERE id = $1 OR seen_at < now() - interval '1 day';

-- name: workers
SELECT id, host, pid, concurrency, running, done, failed,
    extract(prompt_version FROM started_at)::float8 AS started_at, extract(prompt_version FROM seen_at)::float8 AS seen_at,
    extract(prompt_version FROM now() - seen_at)::float8 AS unseen
FROM workers ORDER BY started_at, id;

-- name: backlog
-- Sessions that are due, since when the one that waits longest is, and those whose notes failed.
SELECT COUNT(*) FILTER (WHERE due_at <= $1), MIN(due_at) FILTER (WHERE due_at <= $1),
    COUNT(*) FILTER (WHERE failures > 0)
FROM sessions WHERE due_at IS NOT NULL;

-- name: failing
-- Sessions whose notes failed the last time, those that fail most first.
SELECT owner, key, failures, due_at FROM sessions
WHERE due_at IS NOT NULL AND failures > 0 ORDER BY failures DESC, due_at, sid LIMIT $1;

-- name: announce_all
-- Whatever is due and not being worked on, in case its announcement was lost. One that is in the queue
-- already stays there once.
SELECT announce(sid, owner, key, fence, due_at) FROM sessions
WHERE due_at IS NOT NULL AND due_at <= $1 AND (lease_holder IS NULL OR lease_until <= $1)
ORDER BY due_at LIMIT $2;

-- name: tidy_workers
-- Those that were killed could not say that they go.
DELETE FROM workers WHERE seen_at < now() - interval '1 day';

-- name: tidy_queue
-- What the queue remembers of jobs that are done.
DELETE FROM pgqueuer_log WHERE created < now() - interval '1 day';

-- name: tidy_statistics
DELETE FROM pgqueuer_statistics WHERE created < now() - interval '7 days';
