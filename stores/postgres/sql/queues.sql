-- Read over the narrow tables, so that finished jobs cost nothing.
WITH t AS (SELECT windlass.begin_1($1) AS now_ms),
counted AS (
    SELECT split_part(r.label, chr(31), 1) AS queue, r.queued, 0 AS running, r.oldest FROM (
        SELECT r.label, sum(1 + coalesce(cardinality(r.more_seqs), 0)) AS queued, min(r.run_at_ms) AS oldest FROM windlass.ready r GROUP BY r.label) r
    UNION ALL
    SELECT d.queue, count(*), 0, min(d.run_at_ms) FILTER (WHERE d.run_at_ms <= t.now_ms)
      FROM windlass.delayed d CROSS JOIN t GROUP BY d.queue
    UNION ALL
    SELECT w.queue, count(*), 0, min(w.run_at_ms) FROM windlass.waiting w GROUP BY w.queue
    UNION ALL
    SELECT r.name, 0, sum(r.delta), NULL FROM windlass.tally r WHERE r.what = 0 GROUP BY r.name
), summed AS (
    SELECT c.queue, sum(c.queued)::bigint AS queued, sum(c.running)::bigint AS running, min(c.oldest) AS oldest
      FROM counted c GROUP BY c.queue HAVING sum(c.queued) > 0 OR sum(c.running) > 0
)
SELECT coalesce(q.name, s.queue) AS name, q.policy, coalesce(q.paused, false),
       coalesce(s.queued, 0), coalesce(s.running, 0), s.oldest
  FROM windlass.queues q FULL JOIN summed s ON s.queue = q.name
 ORDER BY 1
