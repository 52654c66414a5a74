-- What must hold between the rows. Each row of the answer is a breach. What
-- one row must hold by itself, and what is unique, the schema sees to.
WITH job AS MATERIALIZED (
    SELECT j.seq, j.id, j.kind, j.queue, j.key, j.dedupe_key, j.budgets, j.run_at_ms, j.state, j.attempt, j.fence, j.expires_ms,
           j.ended_ms, j.pack
      FROM windlass.jobs_1 j
), places AS (
    SELECT u.seq, 'ready' AS place FROM windlass.ready r CROSS JOIN unnest(r.seq || r.more_seqs) AS u(seq)
    UNION ALL
    SELECT d.seq, 'delayed' FROM windlass.delayed d
    UNION ALL
    SELECT w.seq, 'waiting' FROM windlass.waiting w
), counted AS (
    SELECT 0 AS what, j.queue AS name, count(*) AS running FROM job j WHERE j.state = 1 GROUP BY j.queue
    UNION ALL
    SELECT 1, b.name, count(*) FROM job j CROSS JOIN unnest(j.budgets) AS b(name) WHERE j.state = 1 GROUP BY b.name
), tallied AS (
    SELECT t.what, t.name, sum(t.delta) AS running FROM windlass.tally t GROUP BY t.what, t.name
)
SELECT 'job ' || j.id || ' is queued in ' || count(p.seq) || ' places' FROM job j LEFT JOIN places p ON p.seq = j.seq
 WHERE j.state = 0 GROUP BY j.id HAVING count(p.seq) <> 1
UNION ALL
SELECT 'place of a job that is not queued: ' || p.seq || ' is ' || p.place FROM places p
 WHERE NOT EXISTS (SELECT FROM job j WHERE j.seq = p.seq AND j.state = 0)
UNION ALL
SELECT 'job ' || j.id || ' is ready and its key is running' FROM windlass.ready r JOIN job j ON j.seq = r.seq
 WHERE j.key IS NOT NULL AND EXISTS (
       SELECT FROM job other WHERE other.state = 1 AND other.queue = j.queue AND other.key = j.key)
UNION ALL
SELECT 'job ' || j.id || ' waits for nobody' FROM windlass.waiting w JOIN job j ON j.seq = w.seq
 WHERE NOT EXISTS (
       SELECT FROM job other WHERE other.state = 1 AND other.queue = w.queue AND other.key = w.key)
   AND NOT EXISTS (
       SELECT FROM windlass.ready r WHERE r.key = w.key AND r.label = w.label AND (r.rank, r.seq) < (w.rank, w.seq))
UNION ALL
SELECT 'key of job ' || j.id || ' is not held by it' FROM job j
 WHERE j.state = 1 AND j.key IS NOT NULL AND NOT EXISTS (
       SELECT FROM windlass.keys k WHERE k.queue = j.queue AND k.key = j.key AND k.holder = j.seq)
UNION ALL
SELECT 'key is held by a job that does not run: ' || k.holder FROM windlass.keys k
 WHERE k.holder IS NOT NULL AND NOT EXISTS (SELECT FROM job j WHERE j.seq = k.holder AND j.state = 1)
UNION ALL
SELECT 'running jobs of ' || name || ': ' || coalesce(c.running, 0) || ', counted as ' || coalesce(t.running, 0)
  FROM counted c FULL JOIN tallied t USING (what, name) WHERE coalesce(c.running, 0) <> coalesce(t.running, 0)
UNION ALL
SELECT 'nobody will see the lease of job ' || j.id || ' run out' FROM job j
 WHERE j.state = 1 AND NOT EXISTS (
       SELECT FROM windlass.claims c CROSS JOIN unnest(c.seqs, c.fences) AS u(seq, fence)
        WHERE c.due_ms <= j.expires_ms AND u.seq = j.seq AND u.fence = j.fence)
UNION ALL
SELECT 'job ' || j.id || ' is finished and not listed as such' FROM job j
 WHERE j.state >= 2 AND NOT EXISTS (
       SELECT FROM windlass.ended e WHERE e.queue = j.queue AND e.ended_ms = j.ended_ms AND j.seq = ANY (e.seqs))
UNION ALL
SELECT 'listed as finished and not so: ' || u.seq FROM windlass.ended e CROSS JOIN unnest(e.seqs) AS u(seq)
 WHERE NOT EXISTS (
       SELECT FROM job j WHERE j.seq = u.seq AND j.state >= 2 AND j.queue = e.queue AND j.ended_ms = e.ended_ms)
UNION ALL
SELECT 'job ' || j.id || ' miscounts its steps' FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq
 WHERE coalesce(r.steps_count, 0) <> (SELECT count(*) FROM windlass.steps s WHERE s.job_seq = j.seq)
UNION ALL
SELECT 'step of a job that is gone: ' || s.job_seq FROM windlass.steps s
 WHERE NOT EXISTS (SELECT FROM job j WHERE j.seq = s.job_seq)
UNION ALL
SELECT 'job ' || j.id || ' counts more attempts than it was claimed' FROM job j WHERE j.attempt > j.fence
UNION ALL
SELECT 'run of a job that is gone: ' || r.seq FROM windlass.runs r
 WHERE NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.seq = r.seq)
UNION ALL
SELECT 'job ' || j.id || ' differs from what its run says of it' FROM windlass.runs r JOIN windlass.jobs j ON j.seq = r.seq
 CROSS JOIN LATERAL windlass.label_1(j.queue, j.kind, j.key, j.budgets) AS l(label)
 WHERE (coalesce(r.label, l.label), CASE WHEN r.label IS NULL THEN j.key ELSE r.key END, r.deduped)
       IS DISTINCT FROM (l.label, j.key, j.dedupe_key IS NOT NULL)
UNION ALL
SELECT 'job ' || j.id || ' differs from what its place says of it'
  FROM (SELECT u.seq, u.id, h.fence, h.run_at_ms, h.known, h.deduped, h.label, h.key
          FROM windlass.ready h CROSS JOIN unnest(h.seq || h.more_seqs, h.id || h.more_ids) AS u(seq, id)
        UNION ALL
        SELECT w.seq, w.id, w.fence, w.run_at_ms, w.known, w.deduped, w.label, w.key FROM windlass.waiting w) p
  JOIN job j ON j.seq = p.seq
 WHERE (p.id, p.fence, p.run_at_ms, p.known, p.deduped, p.label, p.key)
       IS DISTINCT FROM (j.id, j.fence + 1, j.run_at_ms, EXISTS (SELECT FROM windlass.runs r WHERE r.seq = p.seq),
                         j.dedupe_key IS NOT NULL, windlass.label_1(j.queue, j.kind, j.key, j.budgets), j.key)
UNION ALL
SELECT 'job ' || j.id || ' holds its dedupe key wrongly' FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq
 WHERE j.dedupe_held IS DISTINCT FROM CASE WHEN coalesce(r.state, 0) < 2 THEN j.dedupe_key END
UNION ALL
SELECT 'claim ' || c.request_id || ' counts ' || c.open || ' open leases, and they are ' || count(j.seq)
  FROM windlass.claims c CROSS JOIN unnest(c.seqs) AS u(seq)
  LEFT JOIN windlass.jobs j ON j.seq = u.seq AND NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq)
 WHERE c.due_ms IS NOT NULL
 GROUP BY c.number, c.request_id, c.open HAVING count(j.seq) <> c.open
UNION ALL
SELECT 'job ' || j.id || ' is open with a dedupe key, which its claim does not let go of' FROM job j
 WHERE j.pack IS NOT NULL AND j.dedupe_key IS NOT NULL
UNION ALL
SELECT 'job ' || j.id || ' lies outside of its claim, or differs from it'
  FROM windlass.claims c CROSS JOIN unnest(c.seqs) AS u(seq) JOIN windlass.jobs j ON j.seq = u.seq
 WHERE c.open > 0 AND NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq)
   AND (j.seq NOT BETWEEN c.low AND c.high OR c.label <> windlass.label_1(j.queue, j.kind, j.key, j.budgets))
UNION ALL
SELECT 'job ' || j.id || ' waits in a gate that its key does not know' FROM windlass.waiting w JOIN windlass.jobs j ON j.seq = w.seq
 WHERE NOT EXISTS (
       SELECT FROM windlass.keys k WHERE k.queue = w.queue AND k.key = w.key AND (k.gate IS NULL OR k.gate = w.gate))
