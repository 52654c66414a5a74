-- name: all
SELECT body FROM workers ORDER BY name

-- name: delete
DELETE FROM workers WHERE name = ?1

-- name: load
SELECT body FROM workers WHERE name = ?1

-- name: save
INSERT INTO workers (name, seen_ms, body) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET seen_ms = ?2, body = ?3

-- name: sweep
DELETE FROM workers WHERE seen_ms <= ?1
