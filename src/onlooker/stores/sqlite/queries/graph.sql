-- name: unlinked
SELECT sessions.owner AS owner, sessions.key AS key, notes.id AS id, notes.text AS text
FROM unlinked JOIN sessions USING (sid) JOIN notes ON notes.sid = unlinked.sid AND notes.id = note
LIMIT ?;

-- name: note_text
SELECT text FROM notes WHERE sid = ? AND id = ?;

-- name: forget_mentions
DELETE FROM mentions WHERE sid = ? AND note = ?;

-- name: add_entity
INSERT OR IGNORE INTO entities (owner, folded, name) VALUES (?, ?, ?);

-- name: add_mention
INSERT OR IGNORE INTO mentions (sid, note, entity, place)
SELECT ?1, ?2, number, ?5 FROM entities WHERE owner = ?3 AND folded = ?4;

-- name: linked
DELETE FROM unlinked WHERE sid = ? AND note = ?;

-- name: graph_sessions
SELECT owner, key, sid FROM sessions WHERE owner = ?1 AND (?2 IS NULL OR sid = ?2) ORDER BY sid;

-- name: note_stubs
SELECT id, generation, first_seq, sources FROM notes WHERE sid = ? AND status IN ('active', 'superseded');

-- name: mentions
SELECT sessions.owner AS owner, key, note, name
FROM sessions JOIN notes USING (sid) JOIN mentions ON mentions.sid = notes.sid AND note = notes.id
    JOIN entities ON number = entity
WHERE sessions.owner = ?1 AND (?2 IS NULL OR sessions.sid = ?2) AND status IN ('active', 'superseded')
ORDER BY sessions.sid, note, place LIMIT ?3;

-- name: mentions_of_note
SELECT sessions.owner AS owner, key, note, name
FROM sessions JOIN notes USING (sid) JOIN mentions ON mentions.sid = notes.sid AND note = notes.id
    JOIN entities ON number = entity
WHERE sessions.owner = ?1 AND sessions.sid = ?2 AND notes.id = ?3 AND status IN ('active', 'superseded')
ORDER BY place;

-- name: mentions_of_entity
SELECT sessions.owner AS owner, key, note, name
FROM entities JOIN mentions ON entity = number JOIN sessions USING (sid)
    JOIN notes ON notes.sid = mentions.sid AND notes.id = note
WHERE entities.owner = ?1 AND folded = ?3 AND sessions.owner = ?1 AND (?2 IS NULL OR mentions.sid = ?2)
    AND status IN ('active', 'superseded')
ORDER BY mentions.sid, note LIMIT ?4;

-- name: noted
SELECT id, first_seq, made_at, text FROM notes
WHERE sid = ? AND id = ? AND status = 'active';
