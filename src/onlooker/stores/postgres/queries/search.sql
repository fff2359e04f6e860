-- name: unindexed
SELECT owner, key FROM sessions
WHERE owner = $1 AND is_unindexed AND ($2::bytea IS NULL OR sid = $2::bytea) LIMIT $3;

-- name: indexed
SELECT indexed, notes_indexed, last_seq FROM sessions WHERE sid = $1;

-- name: set_indexed
UPDATE sessions SET indexed = $1, notes_indexed = $2 WHERE sid = $3;

-- name: notes_to_index
SELECT id, made_at, text FROM notes
WHERE sid = $1 AND status IN ('buffered', 'active') AND status = 'active'
    AND NOT EXISTS (
        SELECT 1 FROM searchable WHERE searchable.sid = $1 AND kind = 'note' AND searchable.id = notes.id
    )
ORDER BY first_seq;

-- name: remove_searchable
DELETE FROM searchable WHERE sid = $1 AND kind = $2 AND id = $3;

-- name: add_searchable
INSERT INTO searchable (kind, owner, sid, id, at, length, scope, words)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: search_totals
SELECT COALESCE(SUM(docs), 0)::bigint, COALESCE(SUM(length), 0)::bigint FROM search_totals
WHERE owner = $1 AND kind = $2 AND ($3::bytea IS NULL OR sid = $3::bytea);

-- name: holders
-- What is asked for comes as FTS5 has it: 'scope : "…" AND words : "…"'; a text must have every token of it.
-- The newest, so that a word that everyone uses costs no more than it tells. The index is asked first:
-- going through the newest texts until enough were found could mean going through all of them.
WITH found AS MATERIALIZED (
    SELECT number FROM searchable
    WHERE string_to_array(scope || ' ' || words, ' ')
        @> ARRAY(SELECT token[1] FROM regexp_matches($1, '"([^"]+)"', 'g') AS token)
)
SELECT number FROM found ORDER BY number DESC LIMIT $2;

-- name: holders_then
WITH found AS MATERIALIZED (
    SELECT number, at FROM searchable
    WHERE string_to_array(scope || ' ' || words, ' ')
        @> ARRAY(SELECT token[1] FROM regexp_matches($1, '"([^"]+)"', 'g') AS token)
)
SELECT number FROM found WHERE at >= $3 AND at < $4 ORDER BY number DESC LIMIT $2;

-- name: said_then
SELECT number FROM searchable
WHERE owner = $1 AND kind = $2 AND at >= $4 AND at < $5 AND ($3::bytea IS NULL OR sid = $3::bytea)
ORDER BY at DESC, number DESC LIMIT $6;

-- name: matched_messages
SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
    messages.seq, messages.id, role, tokens, messages.at, name, extra, text
FROM searchable JOIN sessions USING (sid)
    JOIN messages ON messages.sid = searchable.sid AND messages.id = searchable.id
WHERE number IN (SELECT json_array_elements_text($1::json)::bigint)
UNION ALL
SELECT number, sessions.owner, sessions.key, searchable.words,
    archive.seq, archive.id, role, tokens, archive.at, name, extra, text
FROM searchable JOIN sessions USING (sid)
    JOIN archive ON archive.sid = searchable.sid AND archive.id = searchable.id AND reason <> 'retired'
WHERE number IN (SELECT json_array_elements_text($1::json)::bigint);

-- name: matched_notes
SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
    notes.id, first_seq, made_at, text
FROM searchable JOIN sessions USING (sid)
    JOIN notes ON notes.sid = searchable.sid AND notes.id = searchable.id
WHERE number IN (SELECT json_array_elements_text($1::json)::bigint);

-- name: around
SELECT seq, messages.id, role, tokens, at, name, extra, text
FROM (SELECT json_array_elements_text($2::json)::bigint AS value) AS asked
    JOIN messages ON seq BETWEEN value - $3::bigint AND value + $3::bigint
WHERE sid = $1 AND summary = 0
UNION
SELECT seq, archive.id, role, tokens, at, name, extra, text
FROM (SELECT json_array_elements_text($2::json)::bigint AS value) AS asked
    JOIN archive ON seq BETWEEN value - $3::bigint AND value + $3::bigint
WHERE sid = $1 AND summary = 0 AND reason <> 'retired'
ORDER BY seq;
