-- name: add
INSERT INTO windlass.schedules (name, doc, next_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET doc = excluded.doc WHERE false
RETURNING name

-- name: all
SELECT doc FROM windlass.schedules ORDER BY name

-- name: delete
DELETE FROM windlass.schedules WHERE name = $1 RETURNING name

-- name: due
SELECT doc FROM windlass.schedules WHERE next_ms <= $1 ORDER BY name FOR UPDATE

-- name: load
SELECT doc FROM windlass.schedules WHERE name = $1

-- name: next
SELECT windlass.begin_1($1), (SELECT min(next_ms) FROM windlass.schedules)

-- name: save
UPDATE windlass.schedules SET doc = $2, next_ms = $3 WHERE name = $1
