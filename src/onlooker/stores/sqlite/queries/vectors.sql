-- name: unindexed_anywhere
SELECT owner, key FROM sessions WHERE is_unindexed LIMIT ?;

-- name: space
SELECT space, dimensions, reached FROM spaces WHERE name = ?;

-- name: add_space
INSERT INTO spaces (name, dimensions) VALUES (?, ?);

-- name: empty_space
UPDATE spaces SET dimensions = ?2, reached = 0 WHERE space = ?1;

-- name: lacking
SELECT number, kind FROM searchable
WHERE number > ?2 AND length > 0 AND kind IN ('message', 'note')
    AND NOT EXISTS (SELECT 1 FROM vectors WHERE space = ?1 AND vectors.number = searchable.number)
ORDER BY number LIMIT ?3;

-- name: set_reached
UPDATE spaces SET reached = ?2 WHERE space = ?1;

-- name: last_number
SELECT coalesce(max(number), 0) FROM searchable;

-- name: searchable_text
SELECT number, owner, at FROM searchable WHERE sid = ? AND kind = ? AND id = ?;

-- name: add_signs
INSERT OR REPLACE INTO vector_signs (space, owner, kind, sid, number, at, signs) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: add_vector
INSERT OR REPLACE INTO vectors (space, number, vector) VALUES (?, ?, ?);

-- name: signs
SELECT number, signs FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND (:any_time OR (at >= :after AND at < :before));

-- name: signs_in_session
SELECT number, signs FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND sid = :sid AND (:any_time OR (at >= :after AND at < :before));

-- name: likely
-- The same choice as `policy.searching.vectors.likely`, made by sqlite-vec.
SELECT number FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND (:any_time OR (at >= :after AND at < :before))
ORDER BY vec_distance_hamming(vec_bit(signs), vec_bit(:signs)), number DESC LIMIT :most;

-- name: likely_in_session
SELECT number FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND sid = :sid AND (:any_time OR (at >= :after AND at < :before))
ORDER BY vec_distance_hamming(vec_bit(signs), vec_bit(:signs)), number DESC LIMIT :most;

-- name: vectors
-- In this order: SQLite would otherwise read every vector.
SELECT number, vector FROM json_each(?2) CROSS JOIN vectors ON space = ?1 AND number = value;

-- name: coverage
SELECT
    (SELECT count(*) FROM searchable WHERE length > 0 AND kind IN ('message', 'note')),
    (SELECT count(*) FROM vectors WHERE space = ?1),
    (SELECT count(*) FROM notes),
    (SELECT count(*) FROM unlinked);
