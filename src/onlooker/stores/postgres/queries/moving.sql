-- name: dump_sessions
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen,
    (SELECT COALESCE(MAX(number), 0) FROM changes WHERE changes.sid = sessions.sid) AS changes
FROM sessions WHERE sid BETWEEN $1 AND $2 AND ($3::text IS NULL OR owner = $3::text) ORDER BY sid;

-- name: mark
SELECT COUNT(*), COALESCE(SUM(last_seq), 0)::bigint, COALESCE(SUM(prompt_version), 0)::bigint, COALESCE(MAX(used_at), 0)
FROM sessions;

-- name: dump_pins
SELECT target FROM pins WHERE sid = $1 ORDER BY target;

-- name: dump_live
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS stands FROM messages
WHERE sid = $1 AND seq > $2 ORDER BY seq;

-- name: dump_archived
SELECT seq, id, role, tokens, at, name, extra, text, summary, reason AS stands FROM archive
WHERE sid = $1 AND seq > $2 ORDER BY seq, summary, reason COLLATE "C", id;

-- name: dump_notes
-- Those that no longer stand come first, so that no two live ones ever start at the same message.
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = $1 AND ($2 = 0 OR id IN (
    SELECT pair ->> 0 FROM changes, json_array_elements(changes.statuses::json) AS pair
    WHERE changes.sid = $1 AND number > $2
))
ORDER BY status IN ('buffered', 'active'), first_seq, generation, id;

-- name: dump_extractions
SELECT number, type, value, note, seqs, said_at, made_at FROM extractions
WHERE sid = $1 AND ($2 = 0 OR note IN (
    SELECT pair ->> 0 FROM changes, json_array_elements(changes.statuses::json) AS pair
    WHERE changes.sid = $1 AND changes.number > $2
))
ORDER BY note, number;

-- name: dump_versions
SELECT note, number, change, tokens, author, at, text FROM versions
WHERE sid = $1 AND ($2 = 0 OR note IN (SELECT note FROM versions WHERE sid = $1 AND change > $2))
ORDER BY note, number;

-- name: dump_changes
SELECT number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses FROM changes
WHERE sid = $1 AND number > $2 ORDER BY number;

-- name: dump_usage
SELECT usage.owner, key, model, purpose, input_tokens, output_tokens, verdict, at, cost
FROM usage LEFT JOIN sessions ON sessions.sid = usage.sid
WHERE ($1::bytea IS NULL OR usage.sid = $1::bytea) AND ($2::text IS NULL OR usage.owner = $2::text)
ORDER BY number;

-- name: put_session
INSERT INTO sessions (
    sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget,
    history_hash, due_at, wake_at, failures, used_at, fence, ended_seq, items_chosen
)
SELECT %(sid)s, %(owner)s, %(key)s, %(last_seq)s, %(frontier)s, %(watermark)s, %(tail_start)s,
    %(unnoted_tokens)s, GREATEST(%(revision)s, number), %(prompt_version)s, %(budget)s, %(history_hash)s,
    %(due_at)s::bigint, %(wake_at)s, %(failures)s, %(used_at)s, number, %(ended)s, %(items_chosen)s
FROM (SELECT number FROM beginnings FOR SHARE) AS beginning
ON CONFLICT (sid) DO UPDATE SET
    last_seq = excluded.last_seq, frontier = excluded.frontier, watermark = excluded.watermark,
    tail_start = excluded.tail_start, unnoted_tokens = excluded.unnoted_tokens, revision = excluded.revision,
    prompt_version = excluded.prompt_version, budget = excluded.budget, history_hash = excluded.history_hash, due_at = excluded.due_at,
    wake_at = excluded.wake_at, failures = excluded.failures, used_at = excluded.used_at,
    ended_seq = excluded.ended_seq, items_chosen = excluded.items_chosen;

-- name: put_message
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (sid, seq) DO UPDATE SET
    id = excluded.id, role = excluded.role, tokens = excluded.tokens, at = excluded.at,
    digest = excluded.digest, summary = excluded.summary, name = excluded.name,
    extra = excluded.extra, text = excluded.text;

-- name: put_archived
INSERT INTO archive (sid, seq, id, role, tokens, at, digest, summary, name, extra, text, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (sid, seq, id) DO UPDATE SET
    role = excluded.role, tokens = excluded.tokens, at = excluded.at, digest = excluded.digest,
    summary = excluded.summary, name = excluded.name, extra = excluded.extra, text = excluded.text,
    reason = excluded.reason;

-- name: put_extraction
INSERT INTO extractions (sid, note, number, type, seqs, said_at, made_at, value)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (sid, note, number) DO UPDATE SET
    type = excluded.type, seqs = excluded.seqs, said_at = excluded.said_at, made_at = excluded.made_at,
    value = excluded.value;

-- name: put_usage
INSERT INTO usage (sid, owner, model, purpose, input_tokens, output_tokens, verdict, at, spent_at, cost)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: drop_usage
DELETE FROM usage WHERE sid = $1;

-- name: save_totals
UPDATE sessions SET messages = $1, message_tokens = $2 WHERE sid = $3;

-- name: dump_items
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, session, tags, sources, replaces, derived_from,
    summary
FROM items
WHERE ($1::bytea IS NULL OR sid = $1::bytea) AND ($2::text IS NULL OR owner = $2::text) ORDER BY owner, id;

-- name: dump_shown
SELECT item FROM shown_items JOIN items ON items.owner = shown_items.owner AND items.id = item
WHERE shown_items.sid = $1 AND ($2::bytea IS NULL OR items.sid = $2::bytea) ORDER BY place;

-- name: put_shown
INSERT INTO shown_items (sid, place, owner, item) VALUES ($1, $2, $3, $4);

-- name: put_item
INSERT INTO items (
    owner, id, status, pinned, uses, ranked_at, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, sid, session, tags, sources, replaces, derived_from, summary
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
ON CONFLICT (owner, id) DO UPDATE SET
    status = excluded.status, pinned = excluded.pinned, uses = excluded.uses,
    ranked_at = excluded.ranked_at, type = excluded.type, origin = excluded.origin,
    made_at = excluded.made_at, said_at = excluded.said_at, valid_from = excluded.valid_from,
    ended_at = excluded.ended_at, expires_at = excluded.expires_at, last_used_at = excluded.last_used_at,
    superseded_by = excluded.superseded_by, sid = excluded.sid, session = excluded.session,
    tags = excluded.tags, sources = excluded.sources, replaces = excluded.replaces,
    derived_from = excluded.derived_from, summary = excluded.summary;
