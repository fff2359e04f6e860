-- name: items
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, session, tags, sources, replaces, derived_from,
    summary
FROM items
WHERE owner = :owner AND status IN (SELECT value FROM json_each(:statuses))
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
ORDER BY pinned DESC, ranked_at DESC, id LIMIT :limit;

-- name: add_item
INSERT INTO items (
    owner, id, status, pinned, uses, ranked_at, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, sid, session, tags, sources, replaces, derived_from, summary
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: end_item
UPDATE items SET status = 'ended', ended_at = :at, superseded_by = :by
WHERE owner = :owner AND id = :id AND status = 'live';

-- name: use_item
UPDATE items SET uses = uses + 1, last_used_at = :at, ranked_at = max(ranked_at, :instant)
WHERE owner = :owner AND id = :id;

-- name: mark_ended
UPDATE sessions SET ended_seq = :up_to
WHERE sid = :sid AND ended_seq = :expected AND (:revision IS NULL OR revision = :revision);

-- name: archive_item
UPDATE items SET status = 'archived', pinned = 0, ended_at = COALESCE(ended_at, :at)
WHERE owner = :owner AND id = :id AND status <> 'archived';

-- name: delete_item
DELETE FROM items WHERE owner = ? AND id = ?;

-- name: item_ids
SELECT id FROM items WHERE owner = ?;

-- name: items_made_in
-- The second condition is the index's own: without it that would not be used.
SELECT owner, id FROM items WHERE sid = ? AND sid <> x'';

-- name: items_naming
-- Those that lead to an item which is about to go; a name is looked for as text first, which is quick.
SELECT owner, id, superseded_by, replaces, derived_from FROM items WHERE owner = :owner AND (
    superseded_by = :id OR instr(replaces, :id) OR instr(derived_from, :id)
);

-- name: relink_item
UPDATE items SET superseded_by = ?, replaces = ?, derived_from = ? WHERE owner = ? AND id = ?;

-- name: pin_item
UPDATE items SET pinned = ? WHERE owner = ? AND id = ? AND status = 'live';

-- name: shown_items
SELECT items.owner, items.id, items.status, items.pinned, items.uses, items.type, items.origin,
    items.made_at, items.said_at, items.valid_from, items.ended_at, items.expires_at,
    items.last_used_at, items.superseded_by, items.session, items.tags, items.sources,
    items.replaces, items.derived_from, items.summary
FROM shown_items JOIN items ON items.owner = shown_items.owner AND items.id = item
WHERE shown_items.sid = ? ORDER BY place;

-- name: sessions_showing
SELECT DISTINCT sid FROM shown_items WHERE owner = ? AND item = ?;

-- name: hide_item
DELETE FROM shown_items WHERE owner = ? AND item = ?;

-- name: hide_items_of_session
DELETE FROM shown_items WHERE sid = ?;

-- name: show_item
INSERT INTO shown_items (sid, place, owner, item)
SELECT ?1, ?2, owner, id FROM items WHERE owner = ?3 AND id = ?4 AND status <> 'archived';

-- name: items_chosen
SELECT items_chosen FROM sessions WHERE sid = ?;

-- name: set_items_chosen
UPDATE sessions SET items_chosen = 1 WHERE sid = ?;

-- name: idle
SELECT owner, key FROM sessions
WHERE is_open AND used_hour <= ?1 / 3600000000 AND used_at <= ?1 ORDER BY used_hour, used_at, sid LIMIT ?2;
