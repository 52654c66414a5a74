-- name: delete
DELETE FROM dedupes WHERE dedupe_key = ?1

-- name: holder
SELECT id FROM dedupes CROSS JOIN jobs ON jobs.seq = dedupes.seq WHERE dedupes.dedupe_key = ?1

-- name: insert
INSERT INTO dedupes (dedupe_key, seq) VALUES (?1, ?2)
