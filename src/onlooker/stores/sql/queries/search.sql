-- The full-text index and the vectors.

-- name: unindexed
SELECT owner, key FROM sessions
WHERE owner = :owner AND is_unindexed AND (:sid IS NULL OR sid = :sid) LIMIT :limit;

-- name: unindexed_anywhere
SELECT owner, key FROM sessions WHERE is_unindexed LIMIT :limit;

-- name: indexed
SELECT indexed, notes_indexed, last_seq FROM sessions WHERE sid = :sid;

-- name: set_indexed
UPDATE sessions SET indexed = :seq, notes_indexed = :notes_indexed WHERE sid = :sid;

-- name: notes_to_index
SELECT id, made_at, text FROM notes
WHERE sid = :sid AND status IN ('buffered', 'active') AND status = 'active'
    AND NOT EXISTS (
        SELECT 1 FROM searchable WHERE searchable.sid = :sid AND kind = 'note' AND searchable.id = notes.id
    )
ORDER BY first_seq;

-- name: remove_searchable
DELETE FROM searchable WHERE sid = :sid AND kind = :kind AND id IN (SELECT value FROM json_each(:ids));

-- name: searchable
SELECT number, owner, at FROM searchable WHERE sid = :sid AND kind = :kind AND id = :id;

-- name: search_totals
SELECT CAST(COALESCE(SUM(docs), 0) AS BIGINT), CAST(COALESCE(SUM(length), 0) AS BIGINT) FROM search_totals
WHERE owner = :owner AND kind = :kind AND (:sid IS NULL OR sid = :sid);

-- name: said_between
SELECT number FROM searchable
WHERE owner = :owner AND kind = :kind AND at >= :since AND at < :before AND (:sid IS NULL OR sid = :sid)
ORDER BY at DESC, number DESC LIMIT :limit;

-- name: matched_notes
SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
    notes.id, first_seq, made_at, text
FROM searchable JOIN sessions USING (sid)
    JOIN notes ON notes.sid = searchable.sid AND notes.id = searchable.id
WHERE number IN (SELECT value FROM json_each(:numbers));

-- name: matched_retired
-- Indexed by their seq. The id of any other text is not a number.
SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
    archive.seq, archive.id, role, tokens, archive.at, name, extra, text
FROM searchable JOIN sessions USING (sid)
    JOIN archive ON archive.sid = searchable.sid AND reason = 'retired'
        AND archive.seq = CASE kind WHEN 'retired' THEN CAST(searchable.id AS BIGINT) END
WHERE number IN (SELECT value FROM json_each(:numbers));

-- name: space
SELECT space, dimensions, reached FROM spaces WHERE name = :name;

-- name: add_space
INSERT INTO spaces (name, dimensions) VALUES (:name, :dimensions) RETURNING space;

-- name: empty_space
UPDATE spaces SET dimensions = :dimensions, reached = 0 WHERE space = :space;

-- name: delete_signs
DELETE FROM vector_signs WHERE space = :space;

-- name: delete_vectors
DELETE FROM vectors WHERE space = :space;

-- name: lacking
SELECT number, kind FROM searchable
WHERE number > :reached AND length > 0 AND kind IN ('message', 'note', 'retired')
    AND NOT EXISTS (SELECT 1 FROM vectors WHERE space = :space AND vectors.number = searchable.number)
ORDER BY number LIMIT :limit;

-- name: last_number
SELECT COALESCE(MAX(number), 0) FROM searchable;

-- name: add_signs
INSERT INTO vector_signs (space, owner, kind, sid, number, at, signs)
VALUES (:space, :owner, :kind, :sid, :number, :instant, :signs)
ON CONFLICT (space, owner, kind, sid, number) DO UPDATE SET at = excluded.at, signs = excluded.signs;

-- name: add_vector
INSERT INTO vectors (space, number, vector) VALUES (:space, :number, :vector)
ON CONFLICT (space, number) DO UPDATE SET vector = excluded.vector;

-- name: coverage
SELECT
    (SELECT COUNT(*) FROM searchable WHERE length > 0 AND kind IN ('message', 'note', 'retired')),
    (SELECT COUNT(*) FROM vectors WHERE space = :space),
    (SELECT COUNT(*) FROM notes),
    (SELECT COUNT(*) FROM unlinked);
