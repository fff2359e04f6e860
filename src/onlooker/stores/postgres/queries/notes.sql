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
