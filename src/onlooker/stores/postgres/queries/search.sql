-- name: texts_to_index
SELECT COALESCE(json_agg(json_build_array(seq, id, role, tokens, at, name, extra, text) ORDER BY seq), '[]')::text
FROM (
    (
        SELECT seq, id, role, tokens, at, name, extra, text FROM messages
        WHERE sid = :sid AND seq > :after AND summary = 0 ORDER BY seq LIMIT :limit
    )
    UNION ALL
    (
        SELECT seq, id, role, tokens, at, name, extra, text FROM archive
        WHERE sid = :sid AND seq > :after AND summary = 0 AND reason <> 'retired' ORDER BY seq, id LIMIT :limit
    )
    ORDER BY seq LIMIT :limit
) AS conversation;

-- name: retired_to_index
SELECT seq, id, role, tokens, at, name, extra, text FROM archive
WHERE sid = :sid AND reason = 'retired' AND summary = 0
    AND NOT EXISTS (
        SELECT 1 FROM searchable
        WHERE searchable.sid = :sid AND kind = 'retired' AND searchable.id = archive.seq::text
    )
ORDER BY seq LIMIT :limit;

-- name: add_searchable
-- Texts as JSON: [[id, time, length, words], …].
INSERT INTO searchable (kind, owner, sid, id, at, length, scope, words)
SELECT :kind, :owner, :sid, text ->> 0, (text ->> 1)::bigint, (text ->> 2)::bigint, :scope, text ->> 3
FROM json_array_elements(:texts::json) WITH ORDINALITY AS given (text, position)
ORDER BY position;

-- name: holders
-- For each term, the newest texts that have it and the scope; the limit bounds the cost of a very common word. The
-- index is read first: going through the newest texts until enough are found could mean going through all of them.
SELECT json_agg(COALESCE((
    WITH found AS MATERIALIZED (
        SELECT number FROM searchable
        WHERE string_to_array(scope || ' ' || words, ' ') @> ARRAY[:scope, term.value]
    )
    SELECT json_agg(number ORDER BY number DESC)
    FROM (SELECT number FROM found ORDER BY number DESC LIMIT :limit) AS newest
), '[]') ORDER BY term.place)::text
FROM json_array_elements_text(CAST(:terms AS json)) WITH ORDINALITY AS term (value, place);

-- name: holders_between
SELECT json_agg(COALESCE((
    WITH found AS MATERIALIZED (
        SELECT number, at FROM searchable
        WHERE string_to_array(scope || ' ' || words, ' ') @> ARRAY[:scope, term.value]
    )
    SELECT json_agg(number ORDER BY number DESC)
    FROM (SELECT number FROM found WHERE at >= :since AND at < :before ORDER BY number DESC LIMIT :limit) AS newest
), '[]') ORDER BY term.place)::text
FROM json_array_elements_text(CAST(:terms AS json)) WITH ORDINALITY AS term (value, place);

-- name: set_reached
-- Other transactions may still have to commit texts with lower numbers, so the last 10,000 are checked again.
UPDATE spaces SET reached = GREATEST(:reached - 10000, 0) WHERE space = :space;

-- name: likely
-- The same choice as `policy.search.vectors.likely`.
SELECT number FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind
    AND (:any_time OR (at >= :since AND at < :before))
ORDER BY bit_count(bits(signs) # bits(:signs)), number DESC LIMIT :limit;

-- name: likely_in_session
SELECT number FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND sid = :sid
    AND (:any_time OR (at >= :since AND at < :before))
ORDER BY bit_count(bits(signs) # bits(:signs)), number DESC LIMIT :limit;

-- name: vectors
SELECT number, vector FROM vectors
WHERE space = :space AND number IN (SELECT value FROM json_each(:numbers));
