-- name: delete
DELETE FROM ended WHERE queue = ?1 AND ended_ms = ?2 AND position = ?3

-- name: insert
INSERT INTO ended (queue, ended_ms, position, jobs) VALUES (?1, ?2, ?3, ?4)

-- name: is_final
SELECT 1 FROM past WHERE seq = ?1 AND ended_ms = ?2

-- name: next_queue
SELECT queue FROM ended WHERE queue > ?1 ORDER BY queue LIMIT 1

-- name: oldest
SELECT ended_ms, position, jobs FROM ended WHERE queue = ?1 ORDER BY ended_ms, position
