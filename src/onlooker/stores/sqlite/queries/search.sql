-- name: texts_to_index
-- As JSON: a thread may have to wait for the interpreter after each row.
SELECT json_group_array(json_array(seq, id, role, tokens, at, name, extra, text)) FROM (
    SELECT seq, id, role, tokens, at, name, extra, text FROM (
        SELECT seq, id, role, tokens, at, name, extra, text
        FROM sessions JOIN messages ON place > base + :after AND place <= base + 134217727 AND +slot = base >> 28
        WHERE sid = :sid AND NOT summary ORDER BY place LIMIT :limit
    )
    UNION ALL
    SELECT seq, id, role, tokens, at, name, extra, text FROM (
        SELECT seq, id, role, tokens, at, name, extra, text FROM archive
        WHERE sid = :sid AND seq > :after AND NOT summary AND reason <> 'retired' ORDER BY seq, id LIMIT :limit
    )
    ORDER BY seq LIMIT :limit
);

-- name: retired_to_index
SELECT seq, id, role, tokens, at, name, extra, text FROM archive INDEXED BY archive_retired
WHERE sid = :sid AND reason = 'retired' AND NOT summary
    AND NOT EXISTS (
        SELECT 1 FROM searchable
        WHERE searchable.sid = :sid AND kind = 'retired' AND searchable.id = CAST(archive.seq AS TEXT)
    )
ORDER BY seq LIMIT :limit;

-- name: add_searchable
-- Texts as JSON: [[id, time, length, words], …].
INSERT INTO searchable (kind, owner, sid, id, at, length, scope, words)
SELECT :kind, :owner, :sid, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
    json_extract(value, '$[2]'), :scope, json_extract(value, '$[3]')
FROM json_each(:texts);

-- name: tidy_index
-- Each transaction adds a part to the index. FTS5 joins them by itself after 64 pages, or once there are 16, and until
-- then a search takes three times as long. So many pages of four or more that are alike are joined at once.
INSERT INTO search (search, rank) VALUES ('merge', 16);

-- name: holders
-- For each term, the newest texts that hold it, as JSON: the limit, which bounds the cost of a very common word,
-- or a few more. All texts of an owner share the scope: for a rare term FTS5 would go through all of them. So the
-- newest holders of the term, of any owner, are looked at first, a few: each is looked up in its table, which costs
-- more than the scope does once the term is common.
SELECT json_group_array(json(found)) FROM (
    SELECT (
        SELECT CASE
            WHEN COUNT(*) FILTER (WHERE own) >= :limit OR COUNT(*) < MIN(:limit * 5 / 4, 100)
            THEN json_group_array(number) FILTER (WHERE own)
            ELSE (
                SELECT json_group_array(rowid) FROM (
                    SELECT rowid FROM search
                    WHERE search MATCH 'scope : "' || :scope || '" AND words : "' || term.value || '"'
                    ORDER BY rowid DESC LIMIT :limit
                )
            )
        END
        FROM (
            SELECT number, owner = :owner AND kind = :kind AND (:sid IS NULL OR sid = :sid) AS own
            FROM search CROSS JOIN searchable ON number = search.rowid
            WHERE search MATCH 'words : "' || term.value || '"'
            ORDER BY search.rowid DESC LIMIT MIN(:limit * 5 / 4, 100)
        )
    ) AS found
    FROM json_each(:terms) AS term ORDER BY term.key
);

-- name: holders_between
SELECT json_group_array(json(found)) FROM (
    SELECT (
        SELECT json_group_array(number) FROM (
            SELECT number FROM search JOIN searchable ON number = search.rowid
            WHERE search MATCH 'scope : "' || :scope || '" AND words : "' || term.value || '"'
                AND at >= :since AND at < :before
            ORDER BY search.rowid DESC LIMIT :limit
        )
    ) AS found
    FROM json_each(:terms) AS term ORDER BY term.key
);

-- name: set_reached
UPDATE spaces SET reached = :reached WHERE space = :space;

-- name: signs
SELECT number, signs FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND (:any_time OR (at >= :since AND at < :before));

-- name: signs_in_session
SELECT number, signs FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND sid = :sid
    AND (:any_time OR (at >= :since AND at < :before));

-- name: likely
-- The same choice as `policy.search.vectors.likely`, made by sqlite-vec.
SELECT number FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND (:any_time OR (at >= :since AND at < :before))
ORDER BY vec_distance_hamming(vec_bit(signs), vec_bit(:signs)), number DESC LIMIT :limit;

-- name: likely_in_session
SELECT number FROM vector_signs
WHERE space = :space AND owner = :owner AND kind = :kind AND sid = :sid
    AND (:any_time OR (at >= :since AND at < :before))
ORDER BY vec_distance_hamming(vec_bit(signs), vec_bit(:signs)), number DESC LIMIT :limit;

-- name: vectors
-- In this order: otherwise SQLite would read every vector.
SELECT number, vector FROM json_each(:numbers) CROSS JOIN vectors ON space = :space AND number = value;
