-- The whole store as rows, and rows into a store.

-- name: dump_sessions
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version,
    budget, history_hash, due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq,
    items_chosen,
    (SELECT COALESCE(MAX(number), 0) FROM changes WHERE changes.sid = sessions.sid) AS changes
FROM sessions WHERE sid BETWEEN :low AND :high AND (:owner IS NULL OR owner = :owner) ORDER BY sid;

-- name: mark
-- Numbers that change when sessions are added or used.
SELECT COUNT(*), CAST(COALESCE(SUM(last_seq), 0) AS BIGINT), CAST(COALESCE(SUM(prompt_version), 0) AS BIGINT),
    COALESCE(MAX(used_at), 0)
FROM sessions;

-- name: dump_archived
SELECT seq, id, role, tokens, at, name, extra, text, summary, reason AS status FROM archive
WHERE sid = :sid AND seq > :after ORDER BY seq, summary, reason, id;

-- name: dump_versions
SELECT note, number, change, tokens, author, at, text FROM versions
WHERE sid = :sid
    AND (:change = 0 OR note IN (SELECT note FROM versions WHERE sid = :sid AND change > :change))
ORDER BY note, number;

-- name: dump_changes
SELECT number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses, messages, tokens, replies,
    held, said_at
FROM changes WHERE sid = :sid AND number > :change ORDER BY number;

-- name: dump_usage
SELECT usage.owner, key, model, purpose, input_tokens, output_tokens, verdict, at, cost
FROM usage LEFT JOIN sessions ON sessions.sid = usage.sid
WHERE (:sid IS NULL OR usage.sid = :sid) AND (:owner IS NULL OR usage.owner = :owner) ORDER BY number;

-- name: dump_items
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at, expires_at,
    last_used_at, superseded_by, session, tags, sources, replaces, derived_from, summary
FROM items WHERE (:sid IS NULL OR sid = :sid) AND (:owner IS NULL OR owner = :owner) ORDER BY owner, id;

-- name: dump_shown
SELECT item FROM shown_items JOIN items ON items.owner = shown_items.owner AND items.id = item
WHERE shown_items.sid = :sid AND (:made_in IS NULL OR items.sid = :made_in) ORDER BY position;

-- name: put_archived
INSERT INTO archive (sid, seq, id, role, tokens, at, digest, summary, name, extra, text, reason)
VALUES (:sid, :seq, :id, :role, :tokens, :at, :digest, :is_summary, :name, :extra, :text, :reason)
ON CONFLICT (sid, seq, id) DO UPDATE SET
    role = excluded.role, tokens = excluded.tokens, at = excluded.at, digest = excluded.digest,
    summary = excluded.summary, name = excluded.name, extra = excluded.extra, text = excluded.text,
    reason = excluded.reason;

-- name: put_shown
INSERT INTO shown_items (sid, position, owner, item) VALUES (:sid, :position, :owner, :id);
