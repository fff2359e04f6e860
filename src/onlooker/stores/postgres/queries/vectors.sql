-- name: unindexed_anywhere
SELECT owner, key FROM sessions WHERE is_unindexed LIMIT $1;

-- name: space
SELECT space, dimensions, reached FROM spaces WHERE name = $1;

-- name: add_space
INSERT INTO spaces (name, dimensions) VALUES ($1, $2) RETURNING space;

-- name: empty_space
UPDATE spaces SET dimensions = $2, reached = 0 WHERE space = $1;

-- name: lacking
SELECT number, kind FROM searchable
WHERE number > $2 AND length > 0 AND kind IN ('message', 'note')
    AND NOT EXISTS (SELECT 1 FROM vectors WHERE space = $1 AND vectors.number = searchable.number)
ORDER BY number LIMIT $3;

-- name: set_reached
-- Other transactions may still have texts with lower numbers to commit: a while's worth is looked at again.
UPDATE spaces SET reached = GREATEST($2::bigint - 10000, 0) WHERE space = $1;

-- name: last_number
SELECT COALESCE(MAX(number), 0) FROM searchable;

-- name: searchable_text
SELECT number, owner, at FROM searchable WHERE sid = $1 AND kind = $2 AND id = $3;

-- name: add_signs
INSERT INTO vector_signs (space, owner, kind, sid, number, at, signs) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (space, owner, kind, sid, number) DO UPDATE SET at = excluded.at, signs = excluded.signs;

-- name: add_vector
INSERT INTO vectors (space, number, vector) VALUES ($1, $2, $3)
ON CONFLICT (space, number) DO UPDATE SET vector = excluded.vector;

-- name: signs
SELECT number, signs FROM vector_signs
WHERE space = %(space)s AND owner = %(owner)s AND kind = %(kind)s
    AND (%(any_time)s OR (at >= %(after)s AND at < %(before)s));

-- name: signs_in_session
SELECT number, signs FROM vector_signs
WHERE space = %(space)s AND owner = %(owner)s AND kind = %(kind)s AND sid = %(sid)s
    AND (%(any_time)s OR (at >= %(after)s AND at < %(before)s));

-- name: likely
-- The same choice as `policy.searching.vectors.likely`, made here.
SELECT number FROM vector_signs
WHERE space = %(space)s AND owner = %(owner)s AND kind = %(kind)s
    AND (%(any_time)s OR (at >= %(after)s AND at < %(before)s))
ORDER BY bit_count(bits(signs) # bits(%(signs)s)), number DESC LIMIT %(most)s;

-- name: likely_in_session
SELECT number FROM vector_signs
WHERE space = %(space)s AND owner = %(owner)s AND kind = %(kind)s AND sid = %(sid)s
    AND (%(any_time)s OR (at >= %(after)s AND at < %(before)s))
ORDER BY bit_count(bits(signs) # bits(%(signs)s)), number DESC LIMIT %(most)s;

-- name: vectors
SELECT number, vector FROM vectors
WHERE space = $1 AND number IN (SELECT json_array_elements_text($2::json)::bigint);

-- name: coverage
SELECT
    (SELECT COUNT(*) FROM searchable WHERE length > 0 AND kind IN ('message', 'note')),
    (SELECT COUNT(*) FROM vectors WHERE space = $1),
    (SELECT COUNT(*) FROM notes),
    (SELECT COUNT(*) FROM unlinked);
