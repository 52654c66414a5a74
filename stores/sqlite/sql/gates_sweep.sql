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
