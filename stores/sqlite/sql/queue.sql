-- name: all
SELECT name, policy, paused FROM queues ORDER BY name

-- name: delete
DELETE FROM queues WHERE name = ?1

-- name: load
SELECT policy, paused FROM queues WHERE name = ?1

-- name: save
INSERT INTO queues (name, policy, paused) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET policy = ?2, paused = ?3
