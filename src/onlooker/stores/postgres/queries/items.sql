-- name: lock_owner
-- Whoever changes an owner's items does so alone; until the end of the transaction.
SELECT pg_advisory_xact_lock($1::bigint);

-- name: items
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, session, tags, sources, replaces, derived_from,
    summary
FROM items
WHERE owner = %(owner)s AND status IN (SELECT json_array_elements_text(%(statuses)s::json))
    AND (%(ids)s::text IS NULL OR id IN (SELECT json_array_elements_text(%(ids)s::text::json)))
ORDER BY pinned DESC, ranked_at DESC, id LIMIT NULLIF(%(limit)s::bigint, -1);

-- name: add_item
INSERT INTO items (
    owner, id, status, pinned, uses, ranked_at, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, sid, session, tags, sources, replaces, derived_from, summary
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22);

-- name: end_item
UPDATE items SET status = 'ended', ended_at = %(at)s, superseded_by = %(by)s
WHERE owner = %(owner)s AND id = %(id)s AND status = 'live';

-- name: use_item
UPDATE items SET uses = uses + 1, last_used_at = %(at)s, ranked_at = GREATEST(ranked_at, %(instant)s)
WHERE owner = %(owner)s AND id = %(id)s;

-- name: mark_ended
UPDATE sessions SET ended_seq = %(up_to)s
WHERE sid = %(sid)s AND ended_seq = %(expected)s AND (%(revision)s::bigint IS NULL OR revision = %(revision)s);

-- name: archive_item
UPDATE items SET status = 'archived', pinned = 0, ended_at = COALESCE(ended_at, %(at)s)
WHERE owner = %(owner)s AND id = %(id)s AND status <> 'archived';

-- name: delete_item
DELETE FROM items WHERE owner = $1 AND id = $2;

-- name: item_ids
SELECT id FROM items WHERE owner = $1;

-- name: items_made_in
-- The second condition is the index's own: without it that would not be used.
SELECT owner, id FROM items WHERE sid = $1 AND sid <> '';

-- name: items_naming
-- Those that lead to an item which is about to go; a name is looked for as text first, which is quick.
SELECT owner, id, superseded_by, replaces, derived_from FROM items WHERE owner = %(owner)s AND (
    superseded_by = %(id)s OR strpos(replaces, %(id)s) > 0 OR strpos(derived_from, %(id)s) > 0
);

-- name: relink_item
UPDATE items SET superseded_by = $1, replaces = $2, derived_from = $3 WHERE owner = $4 AND id = $5;

-- name: pin_item
UPDATE items SET pinned = $1 WHERE owner = $2 AND id = $3 AND status = 'live';

-- name: shown_items
SELECT items.owner, items.id, items.status, items.pinned, items.uses, items.type, items.origin,
    items.made_at, items.said_at, items.valid_from, items.ended_at, items.expires_at,
    items.last_used_at, items.superseded_by, items.session, items.tags, items.sources,
    items.replaces, items.derived_from, items.summary
FROM shown_items JOIN items ON items.owner = shown_items.owner AND items.id = item
WHERE shown_items.sid = $1 ORDER BY place;

-- name: sessions_showing
SELECT DISTINCT sid FROM shown_items WHERE owner = $1 AND item = $2 ORDER BY sid;

-- name: hide_item
DELETE FROM shown_items WHERE owner = $1 AND item = $2;

-- name: hide_items_of_session
DELETE FROM shown_items WHERE sid = $1;

-- name: show_item
INSERT INTO shown_items (sid, place, owner, item)
SELECT $1, $2, owner, id FROM items WHERE owner = $3 AND id = $4 AND status <> 'archived';

-- name: items_chosen
SELECT items_chosen FROM sessions WHERE sid = $1;

-- name: set_items_chosen
UPDATE sessions SET items_chosen = 1 WHERE sid = $1;

-- name: idle
SELECT owner, key FROM sessions WHERE is_open AND used_at <= $1 ORDER BY used_at, sid LIMIT $2;
