-- name: known_id
SELECT 1 FROM messages WHERE sid = ?1 AND id = ?2
UNION ALL
SELECT 1 FROM archive WHERE sid = ?1 AND id = ?2;

-- name: add_message
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: digests
-- Newest first, so that the limit keeps the newest, and reads no more than those.
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM messages WHERE sid = ?1 AND NOT summary ORDER BY seq DESC LIMIT ?2
)
UNION ALL
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM archive
    WHERE sid = ?1 AND NOT summary AND reason <> 'retired' ORDER BY seq DESC LIMIT ?2
)
ORDER BY seq DESC LIMIT ?2;

-- name: chain
SELECT digest FROM (
    SELECT seq, digest FROM messages WHERE sid = ?1 AND NOT summary
    UNION ALL
    SELECT seq, digest FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
)
ORDER BY seq;

-- name: messages
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE sid = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?;

-- name: messages_and_archived
-- A summary comes after what it stands for.
SELECT seq, id, role, tokens, at, name, extra, text, summary, 1 AS live FROM messages
WHERE sid = ?1 AND seq > ?2 AND seq <= ?3
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text, summary, 0 FROM archive
WHERE sid = ?1 AND seq > ?2 AND seq <= ?3 AND reason <> 'retired'
ORDER BY seq, summary, live, id LIMIT ?4;

-- name: messages_by_id
-- Live ones first, then the rest of the conversation, then what was taken back.
SELECT seq, id, role, tokens, at, name, extra, text, 0 AS rank FROM messages
WHERE sid = ?1 AND id IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text, 1 + (reason = 'retired') FROM archive
WHERE sid = ?1 AND id IN (SELECT value FROM json_each(?2))
ORDER BY rank;

-- name: messages_in_range
SELECT id, seq FROM messages WHERE sid = ?1 AND seq BETWEEN ?2 AND ?3 AND NOT summary
UNION ALL
SELECT id, seq FROM archive
WHERE sid = ?1 AND seq BETWEEN ?2 AND ?3 AND NOT summary AND reason <> 'retired'
ORDER BY seq;

-- name: known_messages
SELECT seq, id, digest, 'live', summary FROM messages WHERE sid = ?1
UNION ALL
SELECT seq, id, digest, reason, summary FROM archive WHERE sid = ?1;

-- name: archive_range
INSERT INTO archive (sid, seq, id, reason, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, seq, id, ?, role, tokens, at, digest, summary, name, extra, text
FROM messages WHERE sid = ? AND seq BETWEEN ? AND ?;

-- name: delete_range
DELETE FROM messages WHERE sid = ? AND seq BETWEEN ? AND ?;

-- name: clear_compacted
UPDATE archive SET reason = 'cleared' WHERE sid = ? AND seq BETWEEN ? AND ? AND reason = 'compacted';

-- name: retire_archived
UPDATE archive SET reason = 'retired' WHERE sid = ? AND seq = ? AND id = ?;

-- name: move_live
UPDATE messages SET seq = ? WHERE sid = ? AND seq = ?;

-- name: bring_back
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, ?, id, role, tokens, at, digest, summary, name, extra, text
FROM archive WHERE sid = ? AND seq = ? AND id = ?;

-- name: delete_archived
DELETE FROM archive WHERE sid = ? AND seq = ? AND id = ?;

-- name: taken_out
-- What a compaction takes out: its last seq, and the messages of the conversation among them.
SELECT MAX(seq), COALESCE(SUM(NOT summary), 0), COALESCE(SUM(tokens * NOT summary), 0)
FROM messages WHERE sid = ? AND seq <= ?;

-- name: any_between
-- Whether a live message stands after the one seq, up to the other.
SELECT EXISTS (SELECT 1 FROM messages WHERE sid = ? AND seq > ? AND seq <= ?);

-- name: first_live
SELECT MIN(seq) FROM messages WHERE sid = ?;

-- name: delete_summary
DELETE FROM messages WHERE sid = ? AND id = ? AND summary AND seq <= ?;

-- name: forget_older_summaries
-- One summary per place is enough: the one that is about to be archived stands for the older.
DELETE FROM archive WHERE sid = ?1 AND summary
    AND seq IN (SELECT seq FROM messages WHERE sid = ?1 AND seq <= ?2 AND summary);

-- name: unpin_range
DELETE FROM pins WHERE sid = ?1 AND target IN (SELECT id FROM messages WHERE sid = ?1 AND seq <= ?2);

-- name: kept_messages
-- The conversation as it stands, without its texts.
SELECT seq, id, at, 1 AS live FROM messages WHERE sid = ?1 AND NOT summary
UNION ALL
SELECT seq, id, at, 0 FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
ORDER BY seq;
