-- name: known_id
SELECT 1 FROM messages WHERE sid = $1 AND id = $2
UNION ALL
SELECT 1 FROM archive WHERE sid = $1 AND id = $2;

-- name: add_message
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: digests
-- Newest first, so that the limit keeps the newest, and reads no more than those.
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM messages WHERE sid = $1 AND summary = 0
    ORDER BY seq DESC LIMIT NULLIF($2::bigint, -1)
) AS live
UNION ALL
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM archive
    WHERE sid = $1 AND summary = 0 AND reason <> 'retired' ORDER BY seq DESC LIMIT NULLIF($2::bigint, -1)
) AS aside
ORDER BY seq DESC LIMIT NULLIF($2::bigint, -1);

-- name: history_hash
SELECT digest FROM (
    SELECT seq, digest FROM messages WHERE sid = $1 AND summary = 0
    UNION ALL
    SELECT seq, digest FROM archive WHERE sid = $1 AND summary = 0 AND reason <> 'retired'
) AS said
ORDER BY seq;

-- name: messages
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE sid = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT NULLIF($4::bigint, -1);

-- name: live_part
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS stands FROM messages
WHERE sid = $1 AND seq > $2 AND seq <= $3 AND ($5::int = 1 OR summary = 0) ORDER BY seq LIMIT NULLIF($4::bigint, -1);

-- name: archived_part
SELECT seq, id, role, tokens, at, name, extra, text, summary, reason AS stands FROM archive
WHERE sid = $1 AND seq > $2 AND seq <= $3 AND ($5::int = 1 OR summary = 0) AND reason <> 'retired'
ORDER BY seq, summary, reason COLLATE "C", id LIMIT NULLIF($4::bigint, -1);

-- name: messages_by_id
-- Live ones first, then the rest of the conversation, then what was taken back.
SELECT seq, id, role, tokens, at, name, extra, text, 0 AS rank FROM messages
WHERE sid = $1 AND id IN (SELECT json_array_elements_text($2::json))
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text, 1 + (reason = 'retired')::int FROM archive
WHERE sid = $1 AND id IN (SELECT json_array_elements_text($2::json))
ORDER BY rank;

-- name: messages_in_range
SELECT id, seq FROM messages WHERE sid = $1 AND seq BETWEEN $2 AND $3 AND summary = 0
UNION ALL
SELECT id, seq FROM archive
WHERE sid = $1 AND seq BETWEEN $2 AND $3 AND summary = 0 AND reason <> 'retired'
ORDER BY seq;

-- name: known_messages
SELECT seq, id, digest, 'live', summary FROM messages WHERE sid = $1
UNION ALL
SELECT seq, id, digest, reason, summary FROM archive WHERE sid = $1;

-- name: archive_range
INSERT INTO archive (sid, seq, id, reason, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, seq, id, $1, role, tokens, at, digest, summary, name, extra, text
FROM messages WHERE sid = $2 AND seq BETWEEN $3 AND $4;

-- name: delete_range
DELETE FROM messages WHERE sid = $1 AND seq BETWEEN $2 AND $3;

-- name: clear_compacted
UPDATE archive SET reason = 'cleared' WHERE sid = $1 AND seq BETWEEN $2 AND $3 AND reason = 'compacted';

-- name: retire_archived
UPDATE archive SET reason = 'retired' WHERE sid = $1 AND seq = $2 AND id = $3;

-- name: move_live
UPDATE messages SET seq = $1 WHERE sid = $2 AND seq = $3;

-- name: bring_back
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, $1, id, role, tokens, at, digest, summary, name, extra, text
FROM archive WHERE sid = $2 AND seq = $3 AND id = $4;

-- name: delete_archived
DELETE FROM archive WHERE sid = $1 AND seq = $2 AND id = $3;

-- name: taken_out
-- What a compaction takes out: its last seq, and the messages of the conversation among them.
SELECT MAX(seq), COUNT(*) FILTER (WHERE summary = 0),
    COALESCE(SUM(tokens) FILTER (WHERE summary = 0), 0)::bigint
FROM messages WHERE sid = $1 AND seq <= $2;

-- name: any_between
-- Whether a live message stands after the one seq, up to the other.
SELECT EXISTS (SELECT 1 FROM messages WHERE sid = $1 AND seq > $2 AND seq <= $3);

-- name: first_live
SELECT MIN(seq) FROM messages WHERE sid = $1;

-- name: delete_summary
DELETE FROM messages WHERE sid = $1 AND id = $2 AND summary = 1 AND seq <= $3;

-- name: forget_older_summaries
-- One summary per place is enough: the one that is about to be archived stands for the older.
DELETE FROM archive WHERE sid = $1 AND summary = 1
    AND seq IN (SELECT seq FROM messages WHERE sid = $1 AND seq <= $2 AND summary = 1);

-- name: unpin_range
DELETE FROM pins WHERE sid = $1 AND target IN (SELECT id FROM messages WHERE sid = $1 AND seq <= $2);

-- name: kept_messages
-- The conversation as it stands, without its texts.
SELECT seq, id, at, 1 AS live FROM messages WHERE sid = $1 AND summary = 0
UNION ALL
SELECT seq, id, at, 0 FROM archive WHERE sid = $1 AND summary = 0 AND reason <> 'retired'
ORDER BY seq;
