-- name: live_notes
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes WHERE sid = ? AND status IN ('buffered', 'active') ORDER BY first_seq, generation, id;

-- name: notes
-- Newest first, so that the limit keeps the newest.
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = :sid AND status IN (SELECT value FROM json_each(:statuses))
    AND (:reflection IS NULL OR (generation > 0) = :reflection)
ORDER BY first_seq DESC, generation DESC, id DESC LIMIT :limit;

-- name: live_range
SELECT first_seq, last_seq FROM notes
WHERE sid = :sid AND status IN ('buffered', 'active')
    AND (:reflection IS NULL OR (generation > 0) = :reflection);

-- name: add_note
INSERT INTO notes
    (sid, id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_status
UPDATE notes SET status = ?1 WHERE sid = ?2 AND id = ?3 AND status = ?4;

-- name: set_status
UPDATE notes SET status = ? WHERE sid = ? AND id = ?;

-- name: notes_by_id
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes WHERE sid = ? AND id IN (SELECT value FROM json_each(?));

-- name: count_active
SELECT COUNT(*) FROM notes
WHERE sid = :sid AND status IN ('buffered', 'active') AND status = 'active'
    AND (:reflection IS NULL OR (generation > 0) = :reflection);

-- name: delete_notes
DELETE FROM notes WHERE sid = :sid AND (:reflection IS NULL OR (generation > 0) = :reflection);

-- name: has_buffered
SELECT EXISTS (
    SELECT 1 FROM notes WHERE sid = ? AND status IN ('buffered', 'active') AND status = 'buffered'
);

-- name: pins
SELECT target FROM pins WHERE sid = ?;

-- name: add_pin
INSERT INTO pins (sid, target) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: remove_pin
DELETE FROM pins WHERE sid = ? AND target = ?;

-- name: can_be_pinned
SELECT EXISTS (SELECT 1 FROM notes WHERE sid = ?1 AND id = ?2 AND status IN ('buffered', 'active'))
    OR EXISTS (
        SELECT 1 FROM messages WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id = ?2
    )
    OR EXISTS (SELECT 1 FROM archive WHERE sid = ?1 AND id = ?2 AND reason <> 'retired');

-- name: pinned_messages
-- Pinned ones of the conversation that do not stand among the live ones from a seq on.
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND seq < ?2
    AND id IN (SELECT target FROM pins WHERE sid = ?1)
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text FROM archive
WHERE sid = ?1 AND reason <> 'retired' AND id IN (SELECT target FROM pins WHERE sid = ?1)
ORDER BY seq;

-- name: drop_loose_pins
DELETE FROM pins WHERE sid = ?1
    AND NOT EXISTS (SELECT 1 FROM notes WHERE sid = ?1 AND id = target)
    AND NOT EXISTS (
        SELECT 1 FROM messages WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id = target
    )
    AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = ?1 AND id = target);

-- name: sessions_with_past
SELECT sid FROM notes WHERE status IN ('superseded', 'retired')
UNION
SELECT sid FROM archive WHERE reason = 'retired';

-- name: prune_notes
-- What a live note leads back to stays, through any number of generations.
-- (The WITH stands inside: Python's sqlite3 counts no rows for a statement that begins with it.)
DELETE FROM notes WHERE sid = ?1 AND status IN ('superseded', 'retired') AND instant(made_at) < ?2
    AND id NOT IN (
        WITH RECURSIVE kept (id) AS (
            SELECT id FROM notes WHERE sid = ?1 AND status IN ('buffered', 'active')
            UNION
            SELECT source.value FROM kept JOIN notes ON notes.sid = ?1 AND notes.id = kept.id,
                json_each(notes.sources) AS source
            WHERE notes.generation > 0
        )
        SELECT id FROM kept
    );

-- name: prune_messages
DELETE FROM archive WHERE sid = ?1 AND reason = 'retired' AND instant(at) < ?2
    AND id NOT IN (
        SELECT source.value FROM notes, json_each(notes.sources) AS source
        WHERE notes.sid = ?1 AND notes.generation = 0
    );
