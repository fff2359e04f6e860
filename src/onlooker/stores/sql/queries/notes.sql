-- Notes, pins and extractions.

-- name: live_notes
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes WHERE sid = :sid AND status IN ('buffered', 'active') ORDER BY first_seq, generation, id;

-- name: notes
-- Newest first, so that the limit keeps the newest.
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = :sid AND status IN (SELECT value FROM json_each(:statuses))
    AND generation BETWEEN :lowest AND :highest
ORDER BY first_seq DESC, generation DESC, id DESC LIMIT :limit;

-- name: notes_after
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = :sid AND status IN (SELECT value FROM json_each(:statuses))
    AND generation BETWEEN :lowest AND :highest AND (first_seq, generation, id) > (:first, :generation, :id)
ORDER BY first_seq, generation, id LIMIT :limit;

-- name: notes_by_id
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids));

-- name: live_ranges
SELECT first_seq, last_seq FROM notes
WHERE sid = :sid AND status IN ('buffered', 'active') AND generation BETWEEN :lowest AND :highest;

-- name: count_active
SELECT COUNT(*) FROM notes
WHERE sid = :sid AND status IN ('buffered', 'active') AND status = 'active'
    AND generation BETWEEN :lowest AND :highest;

-- name: has_buffered
SELECT EXISTS (
    SELECT 1 FROM notes WHERE sid = :sid AND status IN ('buffered', 'active') AND status = 'buffered'
);

-- name: add_note
INSERT INTO notes
    (sid, id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text)
VALUES (:sid, :id, :generation, :first, :last, :status, :tokens, :made_at, :model, :degraded, :sources, :text);

-- name: change_note
UPDATE notes SET
    generation = :generation, first_seq = :first, last_seq = :last, status = :status, tokens = :tokens,
    made_at = :made_at, model = :model, degraded = :degraded, sources = :sources, text = :text
WHERE sid = :sid AND id = :id;

-- name: change_status
UPDATE notes SET status = :status WHERE sid = :sid AND id = :id AND status = :expected;

-- name: set_status
UPDATE notes SET status = :status WHERE sid = :sid AND id = :id;

-- name: delete_notes
DELETE FROM notes WHERE sid = :sid AND generation BETWEEN :lowest AND :highest;

-- name: drop_notes
DELETE FROM notes WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids));

-- name: sessions_with_past
SELECT sid FROM notes WHERE status IN ('superseded', 'retired')
UNION
SELECT sid FROM archive WHERE reason = 'retired'
ORDER BY sid;

-- name: pins
SELECT target FROM pins WHERE sid = :sid;

-- name: add_pin
INSERT INTO pins (sid, target) VALUES (:sid, :id) ON CONFLICT DO NOTHING;

-- name: remove_pin
DELETE FROM pins WHERE sid = :sid AND target = :id;

-- name: add_extraction
INSERT INTO extractions (sid, note, number, type, seqs, said_at, made_at, text)
VALUES (:sid, :note, :number, :type, :seqs, :said_at, :made_at, :text)
ON CONFLICT (sid, note, number) DO UPDATE SET
    type = excluded.type, seqs = excluded.seqs, said_at = excluded.said_at, made_at = excluded.made_at,
    text = excluded.text;

-- name: extractions
SELECT number, type, extractions.text, note, seqs, said_at, extractions.made_at
FROM extractions JOIN notes ON notes.sid = extractions.sid AND notes.id = note
WHERE extractions.sid = :sid AND status <> 'retired' AND (:type IS NULL OR type = :type)
ORDER BY first_seq, generation, note, number;

-- name: notes_with_extractions
SELECT DISTINCT note FROM extractions WHERE sid = :sid;

-- name: clear_extractions
-- Those of notes within the range of a deleted one, which may stay as its sources.
DELETE FROM extractions WHERE sid = :sid
    AND note IN (SELECT id FROM notes WHERE sid = :sid AND first_seq >= :first AND last_seq <= :last);

-- name: drop_loose_extractions
DELETE FROM extractions WHERE sid = :sid AND note NOT IN (SELECT id FROM notes WHERE sid = :sid);
