-- name: load
SELECT queued, running, finished FROM tallies WHERE sort = ?1 AND name = ?2

-- name: queues
SELECT name, queued, running, finished FROM tallies WHERE sort = ?1 ORDER BY name

-- name: save
-- A number that would fall below zero breaks a CHECK, and with it the operation. The CHECK is also
-- tested on the row that would be inserted, even when it is there already: hence max().
INSERT INTO tallies (sort, name, queued, running, finished)
VALUES (?1, ?2, max(?3, 0), max(?4, 0), max(?5, 0))
ON CONFLICT (sort, name) DO UPDATE SET
  queued = queued + ?3, running = running + ?4, finished = finished + ?5

-- name: sweep
DELETE FROM tallies WHERE queued = 0 AND running = 0 AND finished = 0
