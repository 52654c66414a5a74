-- What is counted is read off "tally", which has few rows of each name, and the oldest of each queue off the heads of
-- indexes: nothing here costs more when more is stored.
WITH t AS (SELECT windlass.begin_1($1) AS now_ms),
counted AS (
    SELECT c.name, sum(c.queued)::bigint AS queued, sum(c.delta)::bigint AS running FROM windlass.tally c
     WHERE c.what = 0 GROUP BY c.name HAVING sum(c.queued) > 0 OR sum(c.delta) > 0
), queues AS (
    SELECT coalesce(q.name, c.name) AS name, q.policy, coalesce(q.paused, false) AS paused,
           coalesce(c.queued, 0) AS queued, coalesce(c.running, 0) AS running
      FROM windlass.queues q FULL JOIN counted c ON c.name = q.name
)
SELECT q.name, q.policy, q.paused, q.queued, q.running, CASE WHEN q.queued > 0 THEN least(
       (SELECT r.run_at_ms FROM windlass.ready r WHERE split_part(r.label, chr(31), 1) = q.name
         ORDER BY split_part(r.label, chr(31), 1), r.run_at_ms LIMIT 1),
       (SELECT w.run_at_ms FROM windlass.waiting w WHERE w.queue = q.name ORDER BY w.queue, w.run_at_ms LIMIT 1),
       (SELECT d.run_at_ms FROM windlass.delayed d WHERE d.queue = q.name AND d.run_at_ms <= t.now_ms
         ORDER BY d.queue, d.run_at_ms, d.seq LIMIT 1)) END
  FROM queues q CROSS JOIN t
 ORDER BY q.name
