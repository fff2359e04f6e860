-- Items of an owner, and which of them a session shows.

-- name: items
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at, expires_at,
    last_used_at, superseded_by, session, tags, sources, replaces, derived_from, summary
FROM items
WHERE owner = :owner AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY pinned DESC, ranked_at DESC, id LIMIT :limit;

-- name: items_by_id
SELECT owner, id, status, pinned, uses, type, origin, made_at, said_at, valid_from, ended_at, expires_at,
    last_used_at, superseded_by, session, tags, sources, replaces, derived_from, summary
FROM items
WHERE owner = :owner AND id IN (SELECT value FROM json_each(:ids))
    AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY pinned DESC, ranked_at DESC, id LIMIT :limit;

-- name: add_item
INSERT INTO items (
    owner, id, status, pinned, uses, ranked_at, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, sid, session, tags, sources, replaces, derived_from, summary
) VALUES (
    :owner, :id, :status, :pinned, :uses, :ranked_at, :type, :origin, :made_at, :said_at, :valid_from, :ended_at,
    :expires_at, :last_used_at, :superseded_by, :sid, :session, :tags, :sources, :replaces, :derived_from,
    :summary
);

-- name: put_item
INSERT INTO items (
    owner, id, status, pinned, uses, ranked_at, type, origin, made_at, said_at, valid_from, ended_at,
    expires_at, last_used_at, superseded_by, sid, session, tags, sources, replaces, derived_from, summary
) VALUES (
    :owner, :id, :status, :pinned, :uses, :ranked_at, :type, :origin, :made_at, :said_at, :valid_from, :ended_at,
    :expires_at, :last_used_at, :superseded_by, :sid, :session, :tags, :sources, :replaces, :derived_from,
    :summary
)
ON CONFLICT (owner, id) DO UPDATE SET
    status = excluded.status, pinned = excluded.pinned, uses = excluded.uses, ranked_at = excluded.ranked_at,
    type = excluded.type, origin = excluded.origin, made_at = excluded.made_at, said_at = excluded.said_at,
    valid_from = excluded.valid_from, ended_at = excluded.ended_at, expires_at = excluded.expires_at,
    last_used_at = excluded.last_used_at, superseded_by = excluded.superseded_by, sid = excluded.sid,
    session = excluded.session, tags = excluded.tags, sources = excluded.sources, replaces = excluded.replaces,
    derived_from = excluded.derived_from, summary = excluded.summary;

-- name: end_item
UPDATE items SET status = 'ended', ended_at = :at, superseded_by = :by
WHERE owner = :owner AND id = :id AND status = 'live';

-- name: use_item
UPDATE items SET uses = uses + 1, last_used_at = :at,
    ranked_at = CASE WHEN ranked_at < :instant THEN :instant ELSE ranked_at END
WHERE owner = :owner AND id = :id;

-- name: mark_ended
UPDATE sessions SET ended_seq = :up_to
WHERE sid = :sid AND ended_seq = :expected_seq AND (:revision IS NULL OR revision = :revision);

-- name: archive_item
UPDATE items SET status = 'archived', pinned = 0, ended_at = COALESCE(ended_at, :at)
WHERE owner = :owner AND id = :id AND status <> 'archived';

-- name: delete_item
DELETE FROM items WHERE owner = :owner AND id = :id;

-- name: item_ids
SELECT id FROM items WHERE owner = :owner;

-- name: items_made_in
-- The second condition is the index's own: without it the index would not be used.
SELECT owner, id FROM items WHERE sid = :sid AND sid <> x'';

-- name: items_naming
-- Items that link to one which is being deleted. The lists are JSON; whether they contain the id is tested as
-- text first, which is fast.
SELECT owner, id, superseded_by, replaces, derived_from FROM items WHERE owner = :owner AND (
    superseded_by = :id OR replace(replaces, :id, '') <> replaces
    OR replace(derived_from, :id, '') <> derived_from
);

-- name: relink_item
UPDATE items SET superseded_by = :superseded_by, replaces = :replaces, derived_from = :derived_from
WHERE owner = :owner AND id = :id;

-- name: pin_item
UPDATE items SET pinned = :pinned WHERE owner = :owner AND id = :id AND status = 'live';

-- name: shown_items
SELECT items.owner, items.id, items.status, items.pinned, items.uses, items.type, items.origin, items.made_at,
    items.said_at, items.valid_from, items.ended_at, items.expires_at, items.last_used_at, items.superseded_by,
    items.session, items.tags, items.sources, items.replaces, items.derived_from, items.summary
FROM shown_items JOIN items ON items.owner = shown_items.owner AND items.id = item
WHERE shown_items.sid = :sid ORDER BY position;

-- name: sessions_showing
SELECT DISTINCT sid FROM shown_items WHERE owner = :owner AND item = :id ORDER BY sid;

-- name: hide_item
DELETE FROM shown_items WHERE owner = :owner AND item = :id;

-- name: hide_items_of_session
DELETE FROM shown_items WHERE sid = :sid;

-- name: show_item
INSERT INTO shown_items (sid, position, owner, item)
SELECT :sid, :position, owner, id FROM items WHERE owner = :owner AND id = :id AND status <> 'archived';

-- name: set_items_chosen
UPDATE sessions SET items_chosen = 1 WHERE sid = :sid;
