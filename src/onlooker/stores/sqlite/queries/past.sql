-- name: last_change
SELECT COALESCE(MAX(number), 0) FROM changes WHERE sid = ?;

-- name: add_change
INSERT INTO changes
    (sid, number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (sid, number) DO UPDATE SET
    at = excluded.at, last_seq = excluded.last_seq, frontier = excluded.frontier,
    watermark = excluded.watermark, tail_start = excluded.tail_start, kept = excluded.kept,
    taken = excluded.taken, statuses = excluded.statuses;

-- name: count_versions
SELECT COUNT(*) FROM versions WHERE sid = ? AND note = ?;

-- name: add_version
INSERT INTO versions (sid, note, number, change, tokens, author, at, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (sid, note, number) DO UPDATE SET
    change = excluded.change, tokens = excluded.tokens, author = excluded.author, at = excluded.at,
    text = excluded.text;

-- name: drop_versions
DELETE FROM versions WHERE sid = ?1 AND note IN (SELECT value FROM json_each(?2));

-- name: drop_loose_versions
DELETE FROM versions WHERE sid = ?1 AND note NOT IN (SELECT id FROM notes WHERE sid = ?1);

-- name: change_note
UPDATE notes SET
    generation = ?3, first_seq = ?4, last_seq = ?5, status = ?6, tokens = ?7, made_at = ?8, model = ?9,
    degraded = ?10, sources = ?11, text = ?12
WHERE sid = ?1 AND id = ?2;

-- name: drop_notes
DELETE FROM notes WHERE sid = ?1 AND id IN (SELECT value FROM json_each(?2));

-- name: seqs_of_messages
SELECT seq FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id IN (SELECT value FROM json_each(?2))
UNION
SELECT seq FROM archive WHERE sid = ?1 AND id IN (SELECT value FROM json_each(?2));

-- name: drop_messages
DELETE FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id IN (SELECT value FROM json_each(?2));

-- name: drop_archived
DELETE FROM archive WHERE sid = ?1 AND id IN (SELECT value FROM json_each(?2));

-- name: drop_extractions_of
-- Values that were taken from any of these messages.
DELETE FROM extractions WHERE sid = ?1 AND EXISTS (
    SELECT 1 FROM json_each(extractions.seqs) AS seq WHERE seq.value IN (SELECT value FROM json_each(?2))
);

-- name: forget_owner_usage
-- What it cost stays counted for the day, without saying whose it was.
UPDATE usage SET sid = x'', owner = '' WHERE owner = ?;
