-- name: unindexed
SELECT owner, key FROM sessions
WHERE owner = ?1 AND is_unindexed AND (?2 IS NULL OR sid = ?2) LIMIT ?3;

-- name: indexed
SELECT indexed, notes_indexed, last_seq FROM sessions WHERE sid = ?;

-- name: set_indexed
UPDATE sessions SET indexed = ?, notes_indexed = ? WHERE sid = ?;

-- name: notes_to_index
SELECT id, made_at, text FROM notes
WHERE sid = ?1 AND status IN ('buffered', 'active') AND status = 'active'
    AND NOT EXISTS (
        SELECT 1 FROM searchable WHERE searchable.sid = ?1 AND kind = 'note' AND searchable.id = notes.id
    )
ORDER BY first_seq;

-- name: remove_searchable
DELETE FROM searchable WHERE sid = ? AND kind = ? AND id = ?;

-- name: add_searchable
INSERT INTO searchable (kind, owner, sid, id, at, length, scope, words) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: search_totals
SELECT total(docs), total(length) FROM search_totals
WHERE owner = ?1 AND kind = ?2 AND (?3 IS NULL OR sid = ?3);

-- name: holders
-- The newest, so that a word that everyone uses costs no more than it tells.
SELECT rowid FROM search WHERE search MATCH ?1 ORDER BY rowid DESC LIMIT ?2;

-- name: holders_then
SELECT search.rowid FROM search JOIN searchable ON number = search.rowid
WHERE search MATCH ?1 AND at >= ?3 AND at < ?4 ORDER BY search.rowid DESC LIMIT ?2;

-- name: said_then
SELECT number FROM searchable
WHERE owner = ?1 AND kind = ?2 AND at >= ?4 AND at < ?5 AND (?3 IS NULL OR sid = ?3)
ORDER BY at DESC, number DESC LIMIT ?6;

-- name: matched_messages
SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
    messages.seq, messages.id, role, tokens, messages.at, name, extra, text
FROM json_each(?1) JOIN searchable ON number = value JOIN sessions USING (sid)
    JOIN messages ON messages.slot = base >> 28 AND messages.id = searchable.id
UNION ALL
SELECT number, sessions.owner, sessions.key, searchable.words,
    archive.seq, archive.id, role, tokens, archive.at, name, extra, text
FROM json_each(?1) JOIN searchable ON number = value JOIN sessions USING (sid)
    JOIN archive ON archive.sid = searchable.sid AND archive.id = searchable.id AND reason <> 'retired';

-- name: matched_notes
SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
    notes.id, first_seq, made_at, text
FROM json_each(?1) JOIN searchable ON number = value JOIN sessions USING (sid)
    JOIN notes ON notes.sid = searchable.sid AND notes.id = searchable.id;

-- name: around
SELECT seq, messages.id, role, tokens, at, name, extra, text
FROM json_each(?2) JOIN sessions
    JOIN messages ON place BETWEEN base + max(value - ?3, -134217728) AND base + min(value + ?3, 134217727)
        AND +slot = base >> 28
WHERE sid = ?1 AND NOT summary
UNION
SELECT seq, archive.id, role, tokens, at, name, extra, text
FROM json_each(?2) JOIN archive ON seq BETWEEN value - ?3 AND value + ?3
WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
ORDER BY seq;
