-- name: awake
SELECT number, budgets, epoch FROM gates WHERE queue = ?1 AND awake = 1

-- name: awake_count
SELECT count(*) FROM (SELECT 1 FROM gates WHERE queue = ?1 AND awake = 1 LIMIT 2)

-- name: awake_of_kind
SELECT number, budgets, epoch FROM gates WHERE queue = ?1 AND kind = ?2 AND awake = 1

-- name: find
SELECT number FROM gates WHERE queue = ?1 AND kind = ?2 AND budgets = ?3 AND epoch = ?4

-- name: insert
INSERT INTO gates (queue, kind, budgets, epoch, awake) VALUES (?1, ?2, ?3, ?4, 0)

-- name: sleep
UPDATE gates SET awake = 0 WHERE number IN (SELECT value FROM rarray(?1))

-- name: sweep
-- Some gates of queues that have no jobs. Names are stepped over one by one, so that a queue with many gates costs one step.
WITH RECURSIVE named (queue) AS (
  SELECT min(queue) FROM gates
  UNION ALL
  SELECT (SELECT min(gates.queue) FROM gates WHERE gates.queue > named.queue) FROM named WHERE named.queue IS NOT NULL
)
DELETE FROM gates WHERE number IN (
  SELECT gates.number FROM named CROSS JOIN gates ON gates.queue = named.queue
  WHERE NOT EXISTS (SELECT 1 FROM tallies WHERE sort = 0 AND name = named.queue) LIMIT ?1
)

-- name: wake
UPDATE gates SET awake = 1 WHERE number = ?1 AND awake = 0
