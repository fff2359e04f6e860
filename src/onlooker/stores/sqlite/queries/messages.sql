-- A live message is stored at the place base + seq, where base is its session's, and is found by place or by id.
-- A bound given by a caller may lie beyond the session's places, so the slot is compared as well. The + before
-- slot keeps SQLite from using the slot's index for that.

-- name: session_for_append
-- What an append needs of the session.
SELECT base, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget,
    history_hash, due_at, wake_at, failures, ended_seq
FROM sessions WHERE sid = :sid;

-- name: append_message
-- Inserts nothing if the session has a message with that id, live or archived.
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT :base + :seq, :base >> 28, :seq, :id, :role, :tokens, :at, :digest, :is_summary, :name, :extra, :text
WHERE NOT EXISTS (SELECT 1 FROM archive WHERE sid = :sid AND id = :id)
ON CONFLICT (slot, id) DO NOTHING;

-- name: save_appended
UPDATE sessions SET
    last_seq = :last_seq, unnoted_tokens = :unnoted_tokens, history_hash = :history_hash, due_at = :due_at,
    messages = messages + :messages, message_tokens = message_tokens + :message_tokens, used_at = :used_at
WHERE base = :base;

-- name: add_message
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES ((SELECT base FROM sessions WHERE sid = :sid) + :seq, (SELECT base >> 28 FROM sessions WHERE sid = :sid),
    :seq, :id, :role, :tokens, :at, :digest, :is_summary, :name, :extra, :text);

-- name: put_message
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
VALUES ((SELECT base FROM sessions WHERE sid = :sid) + :seq, (SELECT base >> 28 FROM sessions WHERE sid = :sid),
    :seq, :id, :role, :tokens, :at, :digest, :is_summary, :name, :extra, :text)
ON CONFLICT (place) DO UPDATE SET
    id = excluded.id, role = excluded.role, tokens = excluded.tokens, at = excluded.at,
    digest = excluded.digest, summary = excluded.summary, name = excluded.name,
    extra = excluded.extra, text = excluded.text;

-- name: known_id
SELECT 1 FROM messages WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id = :id
UNION ALL
SELECT 1 FROM archive WHERE sid = :sid AND id = :id;

-- name: messages
SELECT seq, id, role, tokens, at, name, extra, text
FROM sessions JOIN messages ON place > base + :after AND place <= base + :up_to AND +slot = base >> 28
WHERE sid = :sid ORDER BY place LIMIT :limit;

-- name: newest_messages
SELECT seq, id, role, tokens, at, name, extra, text
FROM sessions JOIN messages ON place > base + :after AND place <= base + :up_to AND +slot = base >> 28
WHERE sid = :sid ORDER BY place DESC LIMIT :limit;

-- name: count_messages
SELECT count(*)
FROM sessions JOIN messages ON place > base + :after AND place <= base + :up_to AND +slot = base >> 28
WHERE sid = :sid;

-- name: live_ids
SELECT json_group_array(id) FROM (
    SELECT id FROM sessions JOIN messages ON place > base + :after AND place <= base + :up_to AND +slot = base >> 28
    WHERE sid = :sid ORDER BY place
);

-- name: live_part
-- With archived_part a part of the conversation. One statement for both would have to sort.
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS status
FROM sessions JOIN messages ON place > base + :after AND place <= base + :up_to AND +slot = base >> 28
WHERE sid = :sid ORDER BY place LIMIT :limit;

-- name: dump_live
SELECT seq, id, role, tokens, at, name, extra, text, summary, 'live' AS status
FROM sessions JOIN messages ON place > base + :after AND place <= base + 134217727 AND +slot = base >> 28
WHERE sid = :sid ORDER BY place;

-- name: digests
-- Newest first, so that the limit keeps the newest and reads no others.
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest
    FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = :sid AND NOT summary ORDER BY place DESC LIMIT :limit
)
UNION ALL
SELECT seq, id, role, digest FROM (
    SELECT seq, id, role, digest FROM archive
    WHERE sid = :sid AND NOT summary AND reason <> 'retired' ORDER BY seq DESC LIMIT :limit
)
ORDER BY seq DESC LIMIT :limit;

-- name: retired
-- By itself, SQLite would go through the session's whole archive.
SELECT seq, id, role, digest FROM archive INDEXED BY archive_retired
WHERE sid = :sid AND reason = 'retired' ORDER BY seq, id;

-- name: conversation_digests
SELECT digest FROM (
    SELECT seq, digest
    FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = :sid AND NOT summary
    UNION ALL
    SELECT seq, digest FROM archive WHERE sid = :sid AND NOT summary AND reason <> 'retired'
)
ORDER BY seq;

-- name: conversation_times
-- The current conversation without its texts.
SELECT seq, id, at, 1 AS live
FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
WHERE sid = :sid AND NOT summary
UNION ALL
SELECT seq, id, at, 0 FROM archive WHERE sid = :sid AND NOT summary AND reason <> 'retired'
ORDER BY seq;

-- name: known_messages
SELECT seq, id, digest, 'live', summary
FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
WHERE sid = :sid
UNION ALL
SELECT seq, id, digest, reason, summary FROM archive WHERE sid = :sid;

-- name: messages_by_id
-- Live ones first, then the rest of the conversation, then retired ones.
SELECT seq, id, role, tokens, at, name, extra, text, 0 AS rank FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text, 1 + (reason = 'retired') FROM archive
WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids))
ORDER BY rank;

-- name: messages_in_range
SELECT id, seq
FROM sessions JOIN messages ON place BETWEEN base + :first AND base + :last AND +slot = base >> 28
WHERE sid = :sid AND NOT summary
UNION ALL
SELECT id, seq FROM archive
WHERE sid = :sid AND seq BETWEEN :first AND :last AND NOT summary AND reason <> 'retired'
ORDER BY seq;

-- name: pinned_messages
-- Pinned messages of the conversation before a seq, and archived ones.
SELECT seq, id, role, tokens, at, name, extra, text FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND seq < :before
    AND id IN (SELECT target FROM pins WHERE sid = :sid)
UNION ALL
SELECT seq, id, role, tokens, at, name, extra, text FROM archive
WHERE sid = :sid AND reason <> 'retired' AND id IN (SELECT target FROM pins WHERE sid = :sid)
ORDER BY seq;

-- name: around
-- Spans as JSON: [[first, last], …], none of which overlaps another. The result too: a thread may have to wait
-- for the interpreter after each row.
SELECT json_group_array(json_array(seq, id, role, tokens, at, name, extra, text)) FROM (
    SELECT seq, messages.id AS id, role, tokens, at, name, extra, text
    FROM json_each(:spans) JOIN sessions
        JOIN messages ON place BETWEEN base + json_extract(value, '$[0]') AND base + json_extract(value, '$[1]')
            AND +slot = base >> 28
    WHERE sid = :sid AND NOT summary
    UNION ALL
    SELECT seq, archive.id, role, tokens, at, name, extra, text
    FROM json_each(:spans) JOIN archive ON seq BETWEEN json_extract(value, '$[0]') AND json_extract(value, '$[1]')
    WHERE sid = :sid AND NOT summary AND (reason <> 'retired' OR :retired = 1)
    ORDER BY seq
);

-- name: matched_messages
-- As JSON, like `around`.
SELECT json_group_array(json_array(number, owner, key, words, seq, id, role, tokens, at, name, extra, text)) FROM (
    SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
        messages.seq AS seq, messages.id AS id, role, tokens, messages.at AS at, name, extra, text
    FROM json_each(:numbers) JOIN searchable ON number = value JOIN sessions USING (sid)
        JOIN messages ON messages.slot = base >> 28 AND messages.id = searchable.id
    UNION ALL
    SELECT number, sessions.owner, sessions.key, searchable.words,
        archive.seq, archive.id, role, tokens, archive.at, name, extra, text
    FROM json_each(:numbers) JOIN searchable ON number = value JOIN sessions USING (sid)
        JOIN archive ON archive.sid = searchable.sid AND archive.id = searchable.id AND reason <> 'retired'
);

-- name: ranked_messages
-- What ranking needs of `matched_messages`: not the texts themselves.
SELECT json_group_array(json_array(number, owner, key, words, seq, id, name)) FROM (
    SELECT number, sessions.owner AS owner, sessions.key AS key, searchable.words AS words,
        messages.seq AS seq, messages.id AS id, name
    FROM json_each(:numbers) JOIN searchable ON number = value JOIN sessions USING (sid)
        JOIN messages ON messages.slot = base >> 28 AND messages.id = searchable.id
    UNION ALL
    SELECT number, sessions.owner, sessions.key, searchable.words, archive.seq, archive.id, name
    FROM json_each(:numbers) JOIN searchable ON number = value JOIN sessions USING (sid)
        JOIN archive ON archive.sid = searchable.sid AND archive.id = searchable.id AND reason <> 'retired'
);

-- name: archive_range
INSERT INTO archive (sid, seq, id, reason, role, tokens, at, digest, summary, name, extra, text)
SELECT sid, seq, id, :reason, role, tokens, at, digest, summary, name, extra, text
FROM sessions JOIN messages ON place BETWEEN base + :first AND base + :last AND +slot = base >> 28
WHERE sid = :sid;

-- name: delete_range
DELETE FROM messages
WHERE place BETWEEN (SELECT base FROM sessions WHERE sid = :sid) + :first
    AND (SELECT base FROM sessions WHERE sid = :sid) + :last
    AND +slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid);

-- name: move_live
UPDATE messages SET seq = :new_seq, place = place - seq + :new_seq
WHERE place = (SELECT base FROM sessions WHERE sid = :sid) + :seq
    AND +slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid);

-- name: bring_back
-- An archived message becomes live again.
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT base + :new_seq, base >> 28, :new_seq, id, role, tokens, at, digest, summary, name, extra, text
FROM archive JOIN sessions USING (sid) WHERE sid = :sid AND seq = :seq AND id = :id;

-- name: taken_out
-- What a compaction replaces: its last seq, and the number and tokens of the messages, summaries aside.
SELECT MAX(seq), COALESCE(SUM(NOT summary), 0), COALESCE(SUM(tokens * NOT summary), 0)
FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + :up_to AND +slot = base >> 28
WHERE sid = :sid;

-- name: any_between
SELECT EXISTS (
    SELECT 1
    FROM sessions JOIN messages ON place > base + :after AND place <= base + :up_to AND +slot = base >> 28
    WHERE sid = :sid
);

-- name: first_live
SELECT (
    SELECT seq
    FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + 134217727
    WHERE sid = :sid ORDER BY place LIMIT 1
);

-- name: last_compacted
SELECT MAX(seq) FROM archive WHERE sid = :sid AND seq <= :up_to AND NOT summary AND reason = 'compacted';

-- name: delete_summary
DELETE FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id = :id AND summary AND seq <= :up_to;

-- name: delete_older_summaries
-- An archived summary is superseded by the one at the same seq that is about to be archived.
DELETE FROM archive WHERE sid = :sid AND summary
    AND seq IN (
        SELECT seq
        FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + :up_to AND +slot = base >> 28
        WHERE sid = :sid AND summary
    );

-- name: unpin_range
DELETE FROM pins WHERE sid = :sid AND target IN (
    SELECT id
    FROM sessions JOIN messages ON place BETWEEN base - 134217728 AND base + :up_to AND +slot = base >> 28
    WHERE sid = :sid
);

-- name: seqs_of_messages
SELECT seq FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id IN (SELECT value FROM json_each(:ids))
UNION
SELECT seq FROM archive WHERE sid = :sid AND id IN (SELECT value FROM json_each(:ids));

-- name: drop_messages
DELETE FROM messages
WHERE slot = (SELECT base >> 28 FROM sessions WHERE sid = :sid) AND id IN (SELECT value FROM json_each(:ids));

-- name: delete_messages_of
DELETE FROM messages
WHERE place BETWEEN (SELECT base FROM sessions WHERE sid = :sid) - 134217728
    AND (SELECT base FROM sessions WHERE sid = :sid) + 134217727;
