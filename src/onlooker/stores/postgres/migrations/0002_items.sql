-- Facts that outlive their session, by owner.
CREATE TABLE items (
    owner text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('live', 'ended', 'archived')),
    pinned smallint NOT NULL DEFAULT 0,
    uses bigint NOT NULL DEFAULT 0,
    ranked_at bigint NOT NULL,               -- last used, or made
    type text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    made_at text COLLATE "C" NOT NULL,
    said_at text COLLATE "C",
    valid_from text COLLATE "C",
    ended_at text COLLATE "C",
    expires_at text COLLATE "C",
    last_used_at text COLLATE "C",
    superseded_by text COLLATE "C" NOT NULL DEFAULT '',
    sid bytea NOT NULL,                      -- the session that it was made in; empty: none
    session text COLLATE "C" NOT NULL,       -- and its key
    tags text COLLATE "C" NOT NULL,          -- JSON, as the three below
    sources text COLLATE "C" NOT NULL,
    replaces text COLLATE "C" NOT NULL,
    derived_from text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX items_status ON items (owner, status, pinned DESC, ranked_at DESC);
CREATE INDEX items_session ON items (sid) WHERE sid <> '';

-- Which of its owner's items a session shows, chosen once.
CREATE TABLE shown_items (
    sid bytea NOT NULL,
    place bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    PRIMARY KEY (sid, place)
);

CREATE INDEX shown_items_item ON shown_items (owner, item);
