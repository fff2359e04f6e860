-- name: can_be_pinned
SELECT EXISTS (SELECT 1 FROM notes WHERE sid = :sid AND id = :id AND status IN ('buffered', 'active'))
    OR EXISTS (SELECT 1 FROM messages WHERE sid = :sid AND id = :id)
    OR EXISTS (SELECT 1 FROM archive WHERE sid = :sid AND id = :id AND reason <> 'retired');

-- name: drop_loose_pins
DELETE FROM pins WHERE sid = :sid
    AND NOT EXISTS (SELECT 1 FROM notes WHERE sid = :sid AND id = target)
    AND NOT EXISTS (SELECT 1 FROM messages WHERE sid = :sid AND id = target)
    AND NOT EXISTS (SELECT 1 FROM archive WHERE sid = :sid AND id = target);

-- name: prune_notes
-- Whatever a live note was made from stays, through any number of generations.
DELETE FROM notes WHERE sid = :sid AND status IN ('superseded', 'retired') AND instant(made_at) < :before
    AND id NOT IN (
        WITH RECURSIVE kept (id) AS (
            SELECT id FROM notes WHERE sid = :sid AND status IN ('buffered', 'active')
            UNION
            SELECT source.id COLLATE "C" FROM kept JOIN notes ON notes.sid = :sid AND notes.id = kept.id,
                json_array_elements_text(notes.sources::json) AS source (id)
            WHERE notes.generation > 0
        )
        SELECT id FROM kept
    );

-- name: prune_messages
DELETE FROM archive WHERE sid = :sid AND reason = 'retired' AND instant(at) < :before
    AND id NOT IN (
        SELECT source.id FROM notes, json_array_elements_text(notes.sources::json) AS source (id)
        WHERE notes.sid = :sid AND notes.generation = 0
    );

-- name: drop_extractions_from
-- Extractions taken from any of these messages.
DELETE FROM extractions WHERE sid = :sid AND EXISTS (
    SELECT 1 FROM json_array_elements_text(extractions.seqs::json) AS own (seq)
    WHERE own.seq::bigint IN (SELECT value FROM json_each(:seqs))
);

-- name: dump_notes
-- Those that are not live come first, so that no two live ones ever start at the same message.
SELECT id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text
FROM notes
WHERE sid = :sid AND (:change = 0 OR id IN (
    SELECT pair ->> 0 FROM changes, json_array_elements(changes.statuses::json) AS pair
    WHERE changes.sid = :sid AND number > :change
))
ORDER BY status IN ('buffered', 'active'), first_seq, generation, id;

-- name: dump_extractions
SELECT number, type, text, note, seqs, said_at, made_at FROM extractions
WHERE sid = :sid AND (:change = 0 OR note IN (
    SELECT pair ->> 0 FROM changes, json_array_elements(changes.statuses::json) AS pair
    WHERE changes.sid = :sid AND changes.number > :change
))
ORDER BY note, number;

-- name: sizes
-- The number of the last change, and how large the session is now. Answers are counted on from the last change.
SELECT COALESCE(last.number, 0), messages, message_tokens,
    COALESCE(last.replies, 0) + (
        SELECT COUNT(*) FROM messages AS said
        WHERE said.sid = :sid AND seq > COALESCE(last.last_seq, 0) AND role = 'assistant' AND summary = 0
    ),
    (
        SELECT COALESCE(SUM(tokens), 0)::bigint FROM notes
        WHERE notes.sid = :sid AND status IN ('buffered', 'active') AND status = 'active'
    )
FROM sessions
    LEFT JOIN (
        SELECT number, last_seq, replies FROM changes WHERE sid = :sid ORDER BY number DESC LIMIT 1
    ) AS last ON true
WHERE sessions.sid = :sid;

-- name: statuses_at
-- The last status of each note when that message was the newest.
SELECT DISTINCT ON (1) pair ->> 0 AS id, pair ->> 1 AS status
FROM changes, json_array_elements(statuses::json) AS pair
WHERE sid = :sid AND last_seq <= :seq ORDER BY 1, number DESC;

-- name: statuses_of
SELECT at, pair ->> 1 FROM changes, json_array_elements(statuses::json) AS pair
WHERE sid = :sid AND pair ->> 0 = :id ORDER BY number;

-- name: made_from
SELECT id FROM notes
WHERE sid = :sid AND generation > 0
    AND EXISTS (SELECT 1 FROM json_array_elements_text(sources::json) AS source WHERE source = :id)
ORDER BY first_seq, generation, id;
