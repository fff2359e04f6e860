-- name: can_be_pinned
SELECT EXISTS (SELECT 1 FROM notes WHERE sid = :sid AND id = :id AND status IN ('buffered', 'active'))
    OR EXISTS (
        SELECT 1 FROM messages WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id = :id
    )
    OR EXISTS (SELECT 1 FROM archive WHERE sid = :sid AND id = :id AND reason <> 'retired');

-- name: drop_loose_pins
DELETE FROM pins WHERE sid = :sid
    AND NOT EXISTS (SELECT 1 FROM notes WHERE sid = :sid AND id = target)
    AND NOT EXISTS (
        SELECT 1 FROM messages WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id = target
    )
    AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = :sid AND id = target);

-- name: prune_notes
-- Whatever a live note was made from stays, through any number of generations.
-- (The WITH is inside: Python's sqlite3 does not count the rows of a statement that starts with it.)
DELETE FROM notes WHERE sid = :sid AND status IN ('superseded', 'retired') AND instant(made_at) < :before
    AND id NOT IN (
        WITH RECURSIVE kept (id) AS (
            SELECT id FROM notes WHERE sid = :sid AND status IN ('buffered', 'active')
            UNION
            SELECT source.value FROM kept JOIN notes ON notes.sid = :sid AND notes.id = kept.id,
                json_each(notes.sources) AS source
            WHERE notes.generation > 0
        )
        SELECT id FROM kept
    );

-- name: prune_messages
DELETE FROM archive WHERE sid = :sid AND reason = 'retired' AND instant(at) < :before
    AND id NOT IN (
        SELECT source.value FROM notes, json_each(notes.sources) AS source
        WHERE notes.sid = :sid AND notes.generation = 0
    );

-- name: drop_extractions_from
-- Extractions taken from any of these messages.
DELETE FROM extractions WHERE sid = :sid AND EXISTS (
    SELECT 1 FROM json_each(extractions.seqs) AS seq WHERE seq.value IN (SELECT value FROM json_each(:seqs))
);

-- name: dump_notes
-- Those that are not live come first, so that no two live ones ever start at the same message.
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = :sid AND (:change = 0 OR id IN (
    SELECT json_extract(pair.value, '$[0]') FROM changes, json_each(changes.statuses) AS pair
    WHERE changes.sid = :sid AND number > :change
))
ORDER BY status IN ('buffered', 'active'), first_seq, generation, id;

-- name: dump_extractions
SELECT number, type, text, note, seqs, said_at, made_at FROM extractions
WHERE sid = :sid AND (:change = 0 OR note IN (
    SELECT json_extract(pair.value, '$[0]') FROM changes, json_each(changes.statuses) AS pair
    WHERE changes.sid = :sid AND changes.number > :change
))
ORDER BY note, number;

-- name: sizes
-- The number of the last change, and how large the session is now. Answers are counted on from the last change.
SELECT COALESCE(last.number, 0), messages, message_tokens,
    COALESCE(last.replies, 0) + (
        SELECT COUNT(*) FROM messages
        WHERE place > base + COALESCE(last.last_seq, 0) AND place <= base + 134217727
            AND role = 'assistant' AND NOT summary
    ),
    (
        SELECT COALESCE(SUM(tokens), 0) FROM notes
        WHERE notes.sid = :sid AND status IN ('buffered', 'active') AND first_seq > -134217729
            AND status = 'active'
    )
FROM sessions
    LEFT JOIN (
        SELECT number, last_seq, replies FROM changes WHERE sid = :sid ORDER BY number DESC LIMIT 1
    ) AS last
WHERE sessions.sid = :sid;

-- name: statuses_at
-- The last status of each note when that message was the newest.
SELECT json_extract(pair.value, '$[0]') AS id, json_extract(pair.value, '$[1]') AS status, MAX(number)
FROM changes, json_each(statuses) AS pair WHERE sid = :sid AND last_seq <= :seq GROUP BY 1;

-- name: statuses_of
SELECT at, json_extract(pair.value, '$[1]') FROM changes, json_each(statuses) AS pair
WHERE sid = :sid AND json_extract(pair.value, '$[0]') = :id ORDER BY number;

-- name: made_from
SELECT id FROM notes
WHERE sid = :sid AND generation > 0 AND EXISTS (SELECT 1 FROM json_each(sources) WHERE value = :id)
ORDER BY first_seq, generation, id;
