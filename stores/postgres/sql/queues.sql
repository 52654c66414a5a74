-- Read over the narrow tables, so that finished jobs cost nothing, and nothing over those that are delayed but what is due.
WITH t AS (SELECT windlass.begin_1($1) AS now_ms),
counted AS (
    SELECT split_part(r.label, chr(31), 1) AS queue, r.queued, 0 AS running, r.oldest FROM (
        SELECT r.label, sum(1 + coalesce(cardinality(r.more_seqs), 0)) AS queued, min(r.run_at_ms) AS oldest FROM windlass.ready r GROUP BY r.label) r
    UNION ALL
    SELECT d.name, d.queued, 0, (
           SELECT f.run_at_ms FROM windlass.delayed f WHERE f.queue = d.name AND f.run_at_ms <= t.now_ms
            ORDER BY f.queue, f.run_at_ms, f.seq LIMIT 1)
      FROM (SELECT d.name, sum(d.delta) AS queued FROM windlass.tally d WHERE d.what = 2 GROUP BY d.name) d CROSS JOIN t
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
