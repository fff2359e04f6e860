-- The graph of notes. Mentions are stored; all other edges are read from the notes.

-- name: unlinked
SELECT sessions.owner AS owner, sessions.key AS key, notes.id AS id, notes.text AS text
FROM unlinked JOIN sessions USING (sid) JOIN notes ON notes.sid = unlinked.sid AND notes.id = note
LIMIT :limit;

-- name: note_text
SELECT text FROM notes WHERE sid = :sid AND id = :id;

-- name: delete_mentions
DELETE FROM mentions WHERE sid = :sid AND note = :id;

-- name: add_entity
-- An existing one is written as well, which locks it: nobody deletes it before it is mentioned.
INSERT INTO entities (owner, folded, name) VALUES (:owner, :folded, :name)
ON CONFLICT (owner, folded) DO UPDATE SET name = entities.name;

-- name: add_mention
INSERT INTO mentions (sid, note, entity, position)
SELECT :sid, :id, number, :position FROM entities WHERE owner = :owner AND folded = :folded
ON CONFLICT DO NOTHING;

-- name: set_linked
DELETE FROM unlinked WHERE sid = :sid AND note = :id;

-- name: sessions_of_owner
SELECT owner, key, sid FROM sessions WHERE owner = :owner AND (:sid IS NULL OR sid = :sid) ORDER BY sid;

-- name: note_stubs
SELECT id, generation, first_seq, sources FROM notes
WHERE sid = :sid AND status IN ('active', 'superseded');

-- name: mentions
SELECT sessions.owner AS owner, key, note, name
FROM sessions JOIN notes USING (sid) JOIN mentions ON mentions.sid = notes.sid AND note = notes.id
    JOIN entities ON number = entity
WHERE sessions.owner = :owner AND (:sid IS NULL OR sessions.sid = :sid) AND status IN ('active', 'superseded')
ORDER BY sessions.sid, note, position LIMIT :limit;

-- name: mentions_of_note
SELECT sessions.owner AS owner, key, note, name
FROM sessions JOIN notes USING (sid) JOIN mentions ON mentions.sid = notes.sid AND note = notes.id
    JOIN entities ON number = entity
WHERE sessions.owner = :owner AND sessions.sid = :sid AND notes.id = :id AND status IN ('active', 'superseded')
ORDER BY position;

-- name: mentions_of_entity
SELECT sessions.owner AS owner, key, note, name
FROM entities JOIN mentions ON entity = number JOIN sessions USING (sid)
    JOIN notes ON notes.sid = mentions.sid AND notes.id = note
WHERE entities.owner = :owner AND folded = :folded AND sessions.owner = :owner
    AND (:sid IS NULL OR mentions.sid = :sid) AND status IN ('active', 'superseded')
ORDER BY mentions.sid, note LIMIT :limit;

-- name: active_note
SELECT id, first_seq, made_at, text FROM notes WHERE sid = :sid AND id = :id AND status = 'active';
