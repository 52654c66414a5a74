-- name: all
SELECT name, queues, kinds, slots, running, started_ms, seen_ms, version, host FROM windlass.workers ORDER BY name

-- name: delete
DELETE FROM windlass.workers WHERE name = $1

-- name: save
INSERT INTO windlass.workers AS w (name, queues, kinds, slots, running, started_ms, seen_ms, version, host)
SELECT $2, $3, $4, $5, $6, t.now_ms, t.now_ms, $7, $8 FROM (SELECT windlass.begin_1($1) AS now_ms) t
ON CONFLICT (name) DO UPDATE
   SET queues = excluded.queues, kinds = excluded.kinds, slots = excluded.slots, running = excluded.running,
       seen_ms = excluded.seen_ms, version = excluded.version, host = excluded.host
