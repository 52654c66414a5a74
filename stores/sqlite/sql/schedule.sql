-- name: all
SELECT body FROM schedules ORDER BY name

-- name: delete
DELETE FROM schedules WHERE name = ?1

-- name: due
SELECT body FROM schedules WHERE next_ms <= ?1 ORDER BY name

-- name: load
SELECT body FROM schedules WHERE name = ?1

-- name: next
SELECT min(next_ms) FROM schedules

-- name: save
INSERT INTO schedules (name, body, next_ms) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET body = ?2, next_ms = ?3
