-- What a call cost, and when as a number that compares right; both unknown for earlier calls.
ALTER TABLE usage ADD COLUMN spent_at INTEGER;
ALTER TABLE usage ADD COLUMN cost REAL;

CREATE INDEX usage_time ON usage (spent_at);
