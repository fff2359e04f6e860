-- works with: 7
-- SQLite writes an index's entry anew whenever a column that it is made of is written, the same or not, and an
-- append writes the number of the last message and the time. Indexes stand on columns that change seldom, so
-- that an append touches fewer pages; triggers keep these, whoever writes.

ALTER TABLE sessions ADD COLUMN is_open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN is_unindexed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN used_hour INTEGER NOT NULL DEFAULT 0;   -- hours since 1970

UPDATE sessions SET
    is_open = last_seq > ended_seq,
    is_unindexed = indexed < last_seq OR NOT notes_indexed,
    used_hour = used_at / 3600000000;

DROP INDEX sessions_used;
DROP INDEX sessions_open;
DROP INDEX sessions_unindexed;

CREATE INDEX sessions_used ON sessions (owner, used_hour);
CREATE INDEX sessions_open ON sessions (used_hour) WHERE is_open;
CREATE INDEX sessions_unindexed ON sessions (owner) WHERE is_unindexed;

CREATE TRIGGER session_begun AFTER INSERT ON sessions BEGIN
    UPDATE sessions SET
        is_open = last_seq > ended_seq,
        is_unindexed = indexed < last_seq OR NOT notes_indexed,
        used_hour = used_at / 3600000000
    WHERE sid = new.sid;
END;

CREATE TRIGGER session_moved AFTER UPDATE OF last_seq, ended_seq, indexed, notes_indexed, used_at ON sessions
WHEN new.is_open <> (new.last_seq > new.ended_seq)
    OR new.is_unindexed <> (new.indexed < new.last_seq OR NOT new.notes_indexed)
    OR new.used_hour <> new.used_at / 3600000000
BEGIN
    UPDATE sessions SET
        is_open = last_seq > ended_seq,
        is_unindexed = indexed < last_seq OR NOT notes_indexed,
        used_hour = used_at / 3600000000
    WHERE sid = new.sid;
END;
