-- Each part is read over the index of its lane, so that finished jobs cost nothing.
WITH t AS (SELECT windlass.begin_1($1) AS now_ms),
unfinished AS (
    SELECT j.queue, 1 AS queued, 0 AS running, j.run_at_ms FROM windlass.jobs j WHERE j.lane = 1
    UNION ALL
    SELECT j.queue, 1, 0, j.run_at_ms FROM windlass.jobs j WHERE j.lane = 2
    UNION ALL
    SELECT j.queue, 1, 0, j.run_at_ms FROM windlass.jobs j WHERE j.lane = 3
    UNION ALL
    SELECT j.queue, 0, 1, NULL FROM windlass.jobs j WHERE j.lease_ms IS NOT NULL
), counted AS (
    SELECT u.queue, sum(u.queued) AS queued, sum(u.running) AS running,
           min(u.run_at_ms) FILTER (WHERE u.run_at_ms <= t.now_ms) AS oldest_due
      FROM unfinished u CROSS JOIN t GROUP BY u.queue
)
SELECT coalesce(q.name, c.queue) AS name, q.policy, coalesce(q.paused, false),
       coalesce(c.queued, 0)::bigint, coalesce(c.running, 0)::bigint, c.oldest_due
  FROM windlass.queues q FULL JOIN counted c ON c.queue = q.name
 ORDER BY 1
