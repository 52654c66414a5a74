-- name: insert
INSERT INTO events (position, at_ms, what, queue, jobs, action) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: list
SELECT position, at_ms, what, queue, jobs, action FROM events WHERE position > ?1 ORDER BY position LIMIT ?2

-- name: sweep
DELETE FROM events WHERE position IN (SELECT position FROM events WHERE position <= ?1 ORDER BY position LIMIT ?2)
