-- name: dump_sessions
SELECT sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, fence, messages, message_tokens, used_at, ended_seq, items_chosen,
    (SELECT COALESCE(MAX(number), 0) FROM changes WHERE changes.sid = sessions.sid) AS changes
FROM sessions WHERE sid BETWEEN ?1 AND ?2 AND (?3 IS NULL OR owner = ?3) ORDER BY sid;

-- name: mark
-- Numbers that grow as sessions come and are used.
SELECT COUNT(*), COALESCE(SUM(last_seq), 0), COALESCE(SUM(prompt_version), 0), COALESCE(MAX(used_at), 0) FROM sessions;

-- name: dump_pins
SELECT target FROM pins WHERE sid = ? ORDER BY target;

-- name: dump_live
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS stands
FROM sessions JOIN messages ON place > base + ?2 AND place <= base + 134217727 AND +slot = base >> 28
WHERE sid = ?1 ORDER BY place;

-- name: dump_archived
SELECT seq, id, role, tokens, at, name, extra, text, summary, reason AS stands FROM archive
WHERE sid = ?1 AND seq > ?2 ORDER BY seq, summary, reason, id;

-- name: dump_notes
-- Those that no longer stand come first, so that no two live ones ever start at the same message.
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = ?1 AND (?2 = 0 OR id IN (
    SELECT json_extract(pair.value, '$[0]') FROM changes, json_each(changes.statuses) AS pair
    WHERE changes.sid = ?1 AND number > ?2
))
ORDER BY status IN ('buffered', 'active'), first_seq, generation, id;

-- name: dump_extractions
SELECT number, type, value, note, seqs, said_at, made_at FROM extractions
WHERE sid = ?1 AND (?2 = 0 OR note IN (
    SELECT json_extract(pair.value, '$[0]') FROM changes, json_each(changes.statuses) AS pair
    WHERE changes.sid = ?1 AND changes.number > ?2
))
ORDER BY note, number;

-- name: dump_versions
SELECT note, number, change, tokens, author, at, text FROM versions
WHERE sid = ?1 AND (?2 = 0 OR note IN (SELECT note FROM versions WHERE sid = ?1 AND change > ?2))
ORDER BY note, number;

-- name: dump_changes
SELECT number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses FROM changes
WHERE sid = ? AND number > ? ORDER BY number;

-- name: dump_usage
SELECT usage.owner, key, model, purpose, input_tokens, output_tokens, verdict, at, cost
FROM usage LEFT JOIN sessions ON sessions.sid = usage.sid
WHERE (?1 IS NULL OR usage.sid = ?1) AND (?2 IS NULL OR usage.owner = ?2) ORDER BY number;

-- name: put_session
INSERT INTO sessions (
    base, sid, owner, key, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget,
    history_hash, due_at, wake_at, failures, used_at, fence, ended_seq, items_chosen
)
SELECT (SELECT COALESCE(MAX(base), 0) + 268435456 FROM sessions),
    :sid, :owner, :key, :last_seq, :frontier, :watermark, :tail_start, :unnoted_tokens,
    max(:revision, number), :prompt_version, :budget, :history_hash, :due_at, :wake_at, :failures, :used_at, number,
    :ended, :items_chosen
FROM beginnings WHERE true
ON CONFLICT (sid) DO UPDATE SET
    last_seq = excluded.last_seq, frontier = excluded.frontier, watermark = excluded.watermark,
    tail_start = excluded.tail_start, unnoted_tokens = excluded.unnoted_tokens, revision = excluded.revision,
    prompt_version = excluded.prompt_version, budget = excluded.budget, history_hash = excluded.history_hash, due_at = excluded.due_at,
    wake_at = excluded.wake_at, failures = excluded.failures, used_at = excluded.used_at,
    ended_seq = excluded.ended_seq, items_chosen = excluded.items_chosen;

-- name: put_message
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES ((SELECT base FROM sessions WHERE sid = ?1) + ?2, (SELECT base >> 28 FROM sessions WHERE sid = ?1),
    ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (place) DO UPDATE SET
    id = excluded.id, role = excluded.role, tokens = excluded.tokens, at = excluded.at,
    digest = excluded.digest, summary = excluded.summary, name = excluded.name,
    extra = excluded.extra, text = excluded.text;

-- name: put_archived
INSERT INTO archive (sid, seq, id, role, tokens, at, digest, summary, name, extra, text, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (sid, seq, id) DO UPDATE SET
    role = excluded.role, tokens = excluded.tokens, at = excluded.at, digest = excluded.digest,
    summary = excluded.summary, name = excluded.name, extra = excluded.extra, text = excluded.text,
    reason = excluded.reason;

-- name: put_extraction
INSERT INTO extractions (sid, note, number, type, seqs, said_at, made_at, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (sid, note, number) DO UPDATE SET
    type = excluded.type, seqs = excluded.seqs, said_at = excluded.said_at, made_at = excluded.made_at,
    value = excluded.value;

-- name: put_usage
INSERT INTO usage (sid, owner, model, purpose, input_tokens, output_tokens, verdict, at, spent_at, cost)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_usage
DELETE FROM usage WHERE sid = ?;

-- name: save_totals
UPDATE sessions SET messages = ?, message_tokens = ? WHERE sid = ?;

-- name: dump_items
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, session, tags, sources, replaces, derived_from,
    summary
FROM items WHERE (?1 IS NULL OR sid = ?1) AND (?2 IS NULL OR owner = ?2) ORDER BY owner, id;

-- name: dump_shown
SELECT item FROM shown_items JOIN items ON items.owner = shown_items.owner AND items.id = item
WHERE shown_items.sid = ?1 AND (?2 IS NULL OR items.sid = ?2) ORDER BY place;

-- name: put_shown
INSERT INTO shown_items (sid, place, owner, item) VALUES (?, ?, ?, ?);

-- name: put_item
INSERT INTO items (
    owner, id, status, pinned, uses, ranked_at, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, sid, session, tags, sources, replaces, derived_from, summary
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (owner, id) DO UPDATE SET
    status = excluded.status, pinned = excluded.pinned, uses = excluded.uses,
    ranked_at = excluded.ranked_at, type = excluded.type, origin = excluded.origin,
    made_at = excluded.made_at, said_at = excluded.said_at, valid_from = excluded.valid_from, ended_at = excluded.ended_at,
    expires_at = excluded.expires_at, last_used_at = excluded.last_used_at,
    superseded_by = excluded.superseded_by, sid = excluded.sid, session = excluded.session,
    tags = excluded.tags, sources = excluded.sources, replaces = excluded.replaces,
    derived_from = excluded.derived_from, summary = excluded.summary;
