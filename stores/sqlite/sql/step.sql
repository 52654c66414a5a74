-- name: bytes
SELECT coalesce(sum(length(CAST(output AS BLOB))), 0) FROM steps WHERE seq = ?1

-- name: count
-- A step that finished is progress: crashes before it do not count towards quarantine.
UPDATE jobs SET steps_count = steps_count + 1, crashes = 0 WHERE seq = ?1

-- name: cut
DELETE FROM steps WHERE seq = ?1 AND ordinal >= ?2

-- name: delete
DELETE FROM steps WHERE seq = ?1

-- name: insert
INSERT INTO steps (seq, ordinal, name, output, attempt, stored_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: is_there
SELECT 1 FROM steps WHERE seq = ?1 AND name = ?2

-- name: load
SELECT name, output, attempt, stored_ms FROM steps WHERE seq = ?1 ORDER BY ordinal

-- name: recount
UPDATE jobs SET steps_count = ?2 WHERE seq = ?1
