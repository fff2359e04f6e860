-- Workers, and the queue of PgQueuer.

-- name: worker_seen
INSERT INTO workers (id, host, pid, concurrency, running, done, failed)
VALUES (:id, :host, :pid, :concurrency, :running, :done, :failed)
ON CONFLICT (id) DO UPDATE SET
    seen_at = now(), running = excluded.running, done = excluded.done, failed = excluded.failed;

-- name: worker_gone
DELETE FROM workers WHERE id = :id OR seen_at < now() - interval '1 day';

-- name: workers
SELECT id, host, pid, concurrency, running, done, failed,
    extract(epoch FROM started_at)::float8 AS started_at, extract(epoch FROM seen_at)::float8 AS seen_at,
    extract(epoch FROM now() - seen_at)::float8 AS unseen
FROM workers ORDER BY started_at, id;

-- name: backlog
-- Due sessions, the due time of the one that has waited longest, and sessions whose last attempt failed.
SELECT COUNT(*) FILTER (WHERE due_at <= :now), MIN(due_at) FILTER (WHERE due_at <= :now),
    COUNT(*) FILTER (WHERE failures > 0)
FROM sessions WHERE due_at IS NOT NULL;

-- name: failing
-- Sessions whose last attempt failed, most failures first.
SELECT owner, key, failures, due_at FROM sessions
WHERE due_at IS NOT NULL AND failures > 0 ORDER BY failures DESC, due_at, sid LIMIT :limit;

-- name: announce_all
-- Enqueue every due session without a lease, in case an announcement was lost. One that is queued already is not
-- queued twice.
SELECT announce(sid, owner, key, fence, due_at) FROM sessions
WHERE due_at IS NOT NULL AND (due_at <= :now OR due_at > :far)
    AND (lease_holder IS NULL OR lease_until <= :now OR lease_until > :far)
ORDER BY due_at LIMIT :limit;

-- name: tidy_workers
-- Killed workers could not sign off.
DELETE FROM workers WHERE seen_at < now() - interval '1 day';

-- name: tidy_queue
DELETE FROM pgqueuer_log WHERE created < now() - interval '1 day';

-- name: tidy_statistics
DELETE FROM pgqueuer_statistics WHERE created < now() - interval '7 days';
