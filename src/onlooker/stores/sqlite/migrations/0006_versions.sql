-- works with: 6
-- The history of a session's notes: a row for each change, so that the memory of any moment can be
-- shown, and what was written since a moment can be found without reading the rest.
CREATE TABLE changes (
    sid BLOB NOT NULL,
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    frontier INTEGER NOT NULL,
    watermark INTEGER NOT NULL,
    tail_start INTEGER NOT NULL,
    kept INTEGER,                            -- a host took back what is after this seq,
    taken INTEGER,                           -- up to this one
    statuses TEXT NOT NULL,                  -- JSON: [[note, status], …]
    PRIMARY KEY (sid, number)
) STRICT, WITHOUT ROWID;

-- Every text of notes that a person edited, the present one too.
CREATE TABLE versions (
    sid BLOB NOT NULL,
    note TEXT NOT NULL,
    number INTEGER NOT NULL,
    change INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    author TEXT NOT NULL,
    at TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (sid, note, number)
) STRICT, WITHOUT ROWID;

-- What can be told of the time before: each note in the order of its making, and then how things stand.
INSERT INTO changes (sid, number, at, last_seq, frontier, watermark, tail_start, statuses)
SELECT sid, row_number() OVER (PARTITION BY sid ORDER BY instant(made_at), generation, first_seq, id),
    made_at, last_seq, last_seq, last_seq, last_seq + 1,
    CASE generation WHEN 0 THEN json_array(json_array(id, 'active')) ELSE (
        SELECT json_group_array(json(pair)) FROM (
            SELECT json_array(notes.id, 'active') AS pair
            UNION ALL
            SELECT json_array(value, 'superseded') FROM json_each(notes.sources)
        )
    ) END
FROM notes;

INSERT INTO changes (sid, number, at, last_seq, frontier, watermark, tail_start, statuses)
SELECT sessions.sid, COUNT(*) + 1, MAX(made_at), sessions.last_seq, frontier, watermark, tail_start,
    json_group_array(json_array(id, status))
FROM sessions JOIN notes ON notes.sid = sessions.sid GROUP BY sessions.sid;
