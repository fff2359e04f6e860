-- What runs for each message, and on SQLite alone: a server takes appends together.

-- name: standing
SELECT base, last_seq, frontier, watermark, tail_start, unnoted_tokens, revision, prompt_version, budget, history_hash,
    due_at, wake_at, failures, ended_seq
FROM sessions WHERE sid = ?;

-- name: append_message
-- Nothing where the session has one of that id, set aside or not.
INSERT INTO messages (place, slot, seq, id, role, tokens, at, digest, summary, name, extra, text)
SELECT ?1 + ?3, ?1 >> 28, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
WHERE NOT EXISTS (SELECT 1 FROM archive WHERE sid = ?2 AND id = ?4)
ON CONFLICT (slot, id) DO NOTHING;

-- name: save_appended
UPDATE sessions SET
    last_seq = ?, unnoted_tokens = ?, history_hash = ?, due_at = ?,
    messages = messages + ?, message_tokens = message_tokens + ?, used_at = ?
WHERE base = ?;
