-- Live messages.

-- name: add_message
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES (:sid, :seq, :id, :role, :tokens, :at, :digest, :is_summary, :name, :extra, :text);

-- name: put_message
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES (:sid, :seq, :id, :role, :tokens, :at, :digest, :is_summary, :name, :extra, :text)
ON CONFLICT (sid, seq) DO UPDATE SET
    id = excluded.id, role = excluded.role, tokens = excluded.tokens, at = excluded.at,
    digest = excluded.digest, summary = excluded.summary, name = excluded.name,
    extra = excluded.extra, text = excluded.text;

-- name: known_id
SELECT 1 FROM messages WHERE sid = :sid AND id = :id
UNION ALL
SELECT 1 FROM archive WHERE sid = :sid AND id = :id;

-- name: messages
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE sid = :sid AND seq > :after AND seq <= :up_to ORDER BY seq LIMIT :limit;

-- name: newest_messages
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE sid = :sid AND seq > :after AND seq <= :up_to ORDER BY seq DESC LIMIT :limit;

-- name: count_messages
SELECT count(*) FROM messages WHERE sid = :sid AND seq > :after AND seq <= :up_to;

-- name: live_ids
SELECT COALESCE(json_agg(id ORDER BY seq), '[]')::text FROM messages
WHERE sid = :sid AND seq > :after AND seq <= :up_to;

-- name: live_part
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS status FROM messages
WHERE sid = :sid AND seq > :after AND seq <= :up_to ORDER BY seq LIMIT :limit;

-- name: dump_live
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS status FROM messages
WHERE sid = :sid AND seq > :after ORDER BY seq;

-- name: digests
-- Newest first, so that the limit keeps the newest and reads no others.
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM messages WHERE sid = :sid AND summary = 0 ORDER BY seq DESC LIMIT :limit
) AS live
UNION ALL
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM archive
    WHERE sid = :sid AND summary = 0 AND reason <> 'retired' ORDER BY seq DESC LIMIT :limit
) AS archived
ORDER BY seq DESC LIMIT :limit;

-- name: retired
SELECT seq, id, role, digest FROM archive WHERE sid = :sid AND reason = 'retired' ORDER BY seq, id;

-- name: conversation_digests
SELECT digest FROM (
    SELECT seq, digest FROM messages WHERE sid = :sid AND summary = 0
    UNION ALL
    SELECT seq, digest FROM archive WHERE sid = :sid AND summary = 0 AND reason <> 'retired'
) AS conversation
ORDER BY seq;

-- name: conversation_times
-- The current conversation without its texts.
SELECT seq, id, at, 1 AS live FROM messages WHERE sid = :sid AND summary = 0
UNION ALL
SELECT seq, id, at, 0 FROM archive WHERE sid = :sid AND summary = 0 AND reason <> 'retired'
ORDER BY seq;

-- name: known_messages
SELECT seq, id, digest, 'live', summary FROM messages WHERE sid = :sid
UNION ALL
SELECT seq, id, digest, reason, summary FROM archive WHERE sid = :sid;

-- name: messages_by_id
-- Live ones first, then the rest of the conversation, then retired ones.
SELECT seq, id, role, tokens, at, name, extra, text, 0 AS rank FROM messages
WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text, 1 + (reason = 'retired')::int FROM archive
WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids))
ORDER BY rank;

-- name: messages_in_range
SELECT id, seq FROM messages WHERE sid = :sid AND seq BETWEEN :first AND :last AND summary = 0
UNION ALL
SELECT id, seq FROM archive
WHERE sid = :sid AND seq BETWEEN :first AND :last AND summary = 0 AND reason <> 'retired'
ORDER BY seq;

-- name: pinned_messages
-- Pinned messages of the conversation before a seq, and archived ones.
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE sid = :sid AND seq < :before AND id IN (SELECT target FROM pins WHERE sid = :sid)
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text FROM archive
WHERE sid = :sid AND reason <> 'retired' AND id IN (SELECT target FROM pins WHERE sid = :sid)
ORDER BY seq;

-- name: around
-- Spans as JSON: [[first, last], …], none of which overlaps another.
WITH asked AS (
    SELECT (span ->> 0)::bigint AS first, (span ->> 1)::bigint AS last FROM jsonb_array_elements(:spans::jsonb) AS span
)
SELECT COALESCE(json_agg(json_build_array(seq, id, role, tokens, at, name, extra, text) ORDER BY seq), '[]')::text
FROM (
    SELECT seq, messages.id AS id, role, tokens, at, name, extra, text
    FROM asked JOIN messages ON seq BETWEEN first AND last
    WHERE sid = :sid AND summary = 0
    UNION ALL
    SELECT seq, archive.id, role, tokens, at, name, extra, text
    FROM asked JOIN archive ON seq BETWEEN first AND last
    WHERE sid = :sid AND summary = 0 AND (reason <> 'retired' OR :retired = 1)
) AS conversation;

-- name: matched_messages
SELECT COALESCE(json_agg(json_build_array(
    number, owner, key, words, seq, id, role, tokens, at, name, extra, text
)), '[]')::text
FROM (
    SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
        messages.seq AS seq, messages.id AS id, role, tokens, messages.at AS at, name, extra, text
    FROM searchable JOIN sessions USING (sid)
        JOIN messages ON messages.sid = searchable.sid AND messages.id = searchable.id
    WHERE number IN (SELECT value FROM json_each(:numbers))
    UNION ALL
    SELECT number, sessions.owner, sessions.key, searchable.words,
        archive.seq, archive.id, role, tokens, archive.at, name, extra, text
    FROM searchable JOIN sessions USING (sid)
        JOIN archive ON archive.sid = searchable.sid AND archive.id = searchable.id AND reason <> 'retired'
    WHERE number IN (SELECT value FROM json_each(:numbers))
) AS found;

-- name: ranked_messages
-- What ranking needs of `matched_messages`: not the texts themselves.
SELECT COALESCE(json_agg(json_build_array(number, owner, key, words, seq, id, name)), '[]')::text
FROM (
    SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
        messages.seq AS seq, messages.id AS id, name
    FROM searchable JOIN sessions USING (sid)
        JOIN messages ON messages.sid = searchable.sid AND messages.id = searchable.id
    WHERE number IN (SELECT value FROM json_each(:numbers))
    UNION ALL
    SELECT number, sessions.owner, sessions.key, searchable.words, archive.seq, archive.id, name
    FROM searchable JOIN sessions USING (sid)
        JOIN archive ON archive.sid = searchable.sid AND archive.id = searchable.id AND reason <> 'retired'
    WHERE number IN (SELECT value FROM json_each(:numbers))
) AS found;

-- name: archive_range
INSERT INTO archive (sid, seq, id, reason, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, seq, id, :reason, role, tokens, at, digest, summary, name, extra, text
FROM messages WHERE sid = :sid AND seq BETWEEN :first AND :last;

-- name: delete_range
DELETE FROM messages WHERE sid = :sid AND seq BETWEEN :first AND :last;

-- name: move_live
UPDATE messages SET seq = :new_seq WHERE sid = :sid AND seq = :seq;

-- name: bring_back
-- An archived message becomes live again.
INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, :new_seq, id, role, tokens, at, digest, summary, name, extra, text
FROM archive WHERE sid = :sid AND seq = :seq AND id = :id;

-- name: taken_out
-- What a compaction replaces: its last seq, and the number and tokens of the messages, summaries aside.
SELECT MAX(seq), COUNT(*) FILTER (WHERE summary = 0),
    COALESCE(SUM(tokens) FILTER (WHERE summary = 0), 0)::bigint
FROM messages WHERE sid = :sid AND seq <= :up_to;

-- name: any_between
SELECT EXISTS (SELECT 1 FROM messages WHERE sid = :sid AND seq > :after AND seq <= :up_to);

-- name: first_live
SELECT MIN(seq) FROM messages WHERE sid = :sid;

-- name: last_compacted
SELECT MAX(seq) FROM archive WHERE sid = :sid AND seq <= :up_to AND summary = 0 AND reason = 'compacted';

-- name: delete_summary
DELETE FROM messages WHERE sid = :sid AND id = :id AND summary = 1 AND seq <= :up_to;

-- name: delete_older_summaries
-- An archived summary is superseded by the one at the same seq that is about to be archived.
DELETE FROM archive WHERE sid = :sid AND summary = 1
    AND seq IN (SELECT seq FROM messages WHERE sid = :sid AND seq <= :up_to AND summary = 1);

-- name: unpin_range
DELETE FROM pins WHERE sid = :sid
    AND target IN (SELECT id FROM messages WHERE sid = :sid AND seq <= :up_to);

-- name: seqs_of_messages
SELECT seq FROM messages WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids))
UNION
SELECT seq FROM archive WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids));

-- name: drop_messages
DELETE FROM messages WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids));

-- name: delete_messages_of
DELETE FROM messages WHERE sid = :sid;
