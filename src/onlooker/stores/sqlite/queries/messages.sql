-- A message lies at the base of its session + seq, and is found by that or by its id. A bound that came from outside
-- may lie beyond the session's part, so that its slot is looked at as well; the + keeps it from being looked up by that.

-- name: known_id
SELECT 1 FROM messages WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id = ?2
UNION ALL
SELECT 1 FROM archive WHERE sid = ?1 AND id = ?2;

-- name: add_message
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES ((SELECT base FROM sessions WHERE sid = ?1) + ?2, (SELECT base >> 28 FROM sessions WHERE sid = ?1),
    ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: digests
-- Newest first, so that the limit keeps the newest, and reads no more than those.
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest
    FROM sessions JOIN messages
        ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = ?1 AND NOT summary ORDER BY place DESC LIMIT ?2
)
UNION ALL
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM archive
    WHERE sid = ?1 AND NOT summary AND reason <> 'retired' ORDER BY seq DESC LIMIT ?2
)
ORDER BY seq DESC LIMIT ?2;

-- name: history_hash
SELECT digest FROM (
    SELECT seq, digest
    FROM sessions JOIN messages
        ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = ?1 AND NOT summary
    UNION ALL
    SELECT seq, digest FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
)
ORDER BY seq;

-- name: messages
SELECT seq, id, role, tokens, at, name, extra, text
FROM sessions JOIN messages ON place > base + ?2 AND place <= base + ?3 AND +slot = base >> 28
WHERE sid = ?1 ORDER BY place LIMIT ?4;

-- name: live_part
-- Parts of a conversation with what was set aside come by two statements each: one for both would sort them.
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS stands
FROM sessions JOIN messages ON place > base + ?2 AND place <= base + ?3 AND +slot = base >> 28
WHERE sid = ?1 AND (?5 OR NOT summary) ORDER BY place LIMIT ?4;

-- name: archived_part
SELECT seq, id, role, tokens, at, name, extra, text, summary, reason AS stands FROM archive
WHERE sid = ?1 AND seq > ?2 AND seq <= ?3 AND (?5 OR NOT summary) AND reason <> 'retired'
ORDER BY seq, summary, reason, id LIMIT ?4;

-- name: messages_by_id
-- Live ones first, then the rest of the conversation, then what was taken back.
SELECT seq, id, role, tokens, at, name, extra, text, 0 AS rank FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text, 1 + (reason = 'retired') FROM archive
WHERE sid = ?1 AND id IN (SELECT value FROM json_each(?2))
ORDER BY rank;

-- name: messages_in_range
SELECT id, seq
FROM sessions JOIN messages ON place BETWEEN base + ?2 AND base + ?3 AND +slot = base >> 28
WHERE sid = ?1 AND NOT summary
UNION ALL
SELECT id, seq FROM archive
WHERE sid = ?1 AND seq BETWEEN ?2 AND ?3 AND NOT summary AND reason <> 'retired'
ORDER BY seq;

-- name: known_messages
SELECT seq, id, digest, 'live', summary
FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
WHERE sid = ?1
UNION ALL
SELECT seq, id, digest, reason, summary FROM archive WHERE sid = ?1;

-- name: archive_range
INSERT INTO archive (sid, seq, id, reason, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, seq, id, ?1, role, tokens, at, digest, summary, name, extra, text
FROM sessions JOIN messages ON place BETWEEN base + ?3 AND base + ?4 AND +slot = base >> 28
WHERE sid = ?2;

-- name: delete_range
DELETE FROM messages
WHERE place BETWEEN (SELECT base FROM sessions WHERE sid = ?1) + ?2
    AND (SELECT base FROM sessions WHERE sid = ?1) + ?3
    AND +slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1);

-- name: clear_compacted
UPDATE archive SET reason = 'cleared' WHERE sid = ? AND seq BETWEEN ? AND ? AND reason = 'compacted';

-- name: retire_archived
UPDATE archive SET reason = 'retired' WHERE sid = ? AND seq = ? AND id = ?;

-- name: move_live
UPDATE messages SET seq = ?1, place = place - seq + ?1
WHERE place = (SELECT base FROM sessions WHERE sid = ?2) + ?3
    AND +slot = (SELECT base >> 28 FROM sessions WHERE sid = ?2);

-- name: bring_back
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT base + ?1, base >> 28, ?1, id, role, tokens, at, digest, summary, name, extra, text
FROM archive JOIN sessions USING (sid) WHERE sid = ?2 AND seq = ?3 AND id = ?4;

-- name: delete_archived
DELETE FROM archive WHERE sid = ? AND seq = ? AND id = ?;

-- name: taken_out
-- What a compaction takes out: its last seq, and the messages of the conversation among them.
SELECT MAX(seq), COALESCE(SUM(NOT summary), 0), COALESCE(SUM(tokens * NOT summary), 0)
FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + ?2 AND +slot = base >> 28
WHERE sid = ?1;

-- name: any_between
-- Whether a live message stands after the one seq, up to the other.
SELECT EXISTS (
    SELECT 1 FROM sessions JOIN messages ON place > base + ?2 AND place <= base + ?3 AND +slot = base >> 28
    WHERE sid = ?1
);

-- name: first_live
SELECT (
    SELECT seq
    FROM sessions JOIN messages
        ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = ?1 ORDER BY place LIMIT 1
);

-- name: delete_summary
DELETE FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = ?1) AND id = ?2 AND summary AND seq <= ?3;

-- name: forget_older_summaries
-- One summary per place is enough: the one that is about to be archived stands for the older.
DELETE FROM archive WHERE sid = ?1 AND summary
    AND seq IN (
        SELECT seq
        FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + ?2 AND +slot = base >> 28
        WHERE sid = ?1 AND summary
    );

-- name: unpin_range
DELETE FROM pins WHERE sid = ?1 AND target IN (
    SELECT id
    FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + ?2 AND +slot = base >> 28
    WHERE sid = ?1
);

-- name: kept_messages
-- The conversation as it stands, without its texts.
SELECT seq, id, at, 1 AS live
FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
WHERE sid = ?1 AND NOT summary
UNION ALL
SELECT seq, id, at, 0 FROM archive WHERE sid = ?1 AND NOT summary AND reason <> 'retired'
ORDER BY seq;
