-- The archive: messages that left the session. The live ones are stored differently by each database.

-- name: archived_part
SELECT seq, id, role, tokens, at, name, extra, text, summary, reason AS status FROM archive
WHERE sid = :sid AND seq > :after AND seq <= :up_to AND reason <> 'retired'
ORDER BY seq, summary, reason, id LIMIT :limit;

-- name: clear_compacted
UPDATE archive SET reason = 'cleared'
WHERE sid = :sid AND seq BETWEEN :first AND :last AND reason = 'compacted';

-- name: retire_archived
UPDATE archive SET reason = 'retired' WHERE sid = :sid AND seq = :seq AND id = :id;

-- name: delete_archived
DELETE FROM archive WHERE sid = :sid AND seq = :seq AND id = :id;

-- name: drop_archived
DELETE FROM archive WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids));
