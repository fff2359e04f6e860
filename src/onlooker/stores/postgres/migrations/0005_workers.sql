-- works with: 4
-- Who takes notes, for `onlooker status --workers`; and whether anyone does, which is when it is worth
-- putting sessions that are due into the queue.
CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    pid bigint NOT NULL,
    concurrency bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    running bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0
);
