-- The history of a session's notes: changes, and earlier texts.

-- name: last_change
SELECT COALESCE(MAX(number), 0) FROM changes WHERE sid = :sid;

-- name: add_change
INSERT INTO changes (
    sid, number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses,
    messages, tokens, replies, held, said_at
)
VALUES (
    :sid, :number, :at, :last_seq, :frontier, :watermark, :tail_start, :kept, :taken, :statuses,
    :messages, :tokens, :replies, :held, :said_at
)
ON CONFLICT (sid, number) DO UPDATE SET
    at = excluded.at, last_seq = excluded.last_seq, frontier = excluded.frontier,
    watermark = excluded.watermark, tail_start = excluded.tail_start, kept = excluded.kept,
    taken = excluded.taken, statuses = excluded.statuses, messages = excluded.messages,
    tokens = excluded.tokens, replies = excluded.replies, held = excluded.held, said_at = excluded.said_at;

-- name: some_changes
SELECT number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses, messages, tokens, replies,
    held, said_at
FROM changes
WHERE sid = :sid AND (number % :step = 0 OR number % :step = :step - 1) ORDER BY number;

-- name: change_at
SELECT COALESCE(MAX(number), 0) FROM changes WHERE sid = :sid AND last_seq <= :seq;

-- name: versions_of
SELECT note, number, change, tokens, author, at, text FROM versions
WHERE sid = :sid AND note IN (SELECT value FROM json_each(:ids)) AND change <= :change ORDER BY note, number;

-- name: count_versions
SELECT COUNT(*) FROM versions WHERE sid = :sid AND note = :note;

-- name: add_version
INSERT INTO versions (sid, note, number, change, tokens, author, at, text)
VALUES (:sid, :note, :number, :change, :tokens, :author, :at, :text)
ON CONFLICT (sid, note, number) DO UPDATE SET
    change = excluded.change, tokens = excluded.tokens, author = excluded.author, at = excluded.at,
    text = excluded.text;

-- name: drop_versions
DELETE FROM versions WHERE sid = :sid AND note IN (SELECT value FROM json_each(:ids));

-- name: drop_loose_versions
DELETE FROM versions WHERE sid = :sid AND note NOT IN (SELECT id FROM notes WHERE sid = :sid);
