-- name: add_extraction
INSERT INTO extractions (sid, note, number, type, seqs, said_at, made_at, value)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: extractions
SELECT type, value, note, seqs, said_at, extractions.made_at
FROM extractions JOIN notes ON notes.sid = extractions.sid AND notes.id = note
WHERE extractions.sid = %(sid)s AND status <> 'retired'
    AND (%(type)s::text IS NULL OR type = %(type)s::text)
ORDER BY first_seq, generation, note, number;

-- name: clear_extractions
-- Of the notes that a deleted one stood for, which may stay for provenance.
DELETE FROM extractions WHERE sid = $1
    AND note IN (SELECT id FROM notes WHERE sid = $1 AND first_seq >= $2 AND last_seq <= $3);

-- name: drop_loose_extractions
DELETE FROM extractions WHERE sid = $1 AND note NOT IN (SELECT id FROM notes WHERE sid = $1);
