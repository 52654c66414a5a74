-- What must hold of each of the jobs in these pages. Each row of the answer is a breach.
WITH job AS MATERIALIZED (
    SELECT j.seq, j.id, j.kind, j.queue, j.key, j.dedupe_key, j.budgets, j.rank, j.run_at_ms, j.state,
           j.attempt, j.fence, j.expires_ms,
           j.ended_ms, j.pack, b.gate, b.dedupe_held
      FROM windlass.jobs b JOIN windlass.jobs_1 j ON j.seq = b.seq
     WHERE b.ctid >= $1::text::tid AND b.ctid < $2::text::tid
), placed AS MATERIALIZED (
    SELECT j.id, (SELECT count(*) FROM windlass.delayed d
                   WHERE d.queue = j.queue AND d.run_at_ms = j.run_at_ms AND d.seq = j.seq)
               + (SELECT count(*) FROM windlass.waiting w
                   WHERE w.queue = j.queue AND w.key = j.key AND w.gate = j.gate AND w.rank = j.rank AND w.seq = j.seq)
               + (SELECT count(*) FROM (
                     SELECT h.seq, h.more_seqs FROM windlass.ready h
                      WHERE h.room = windlass.room_1(j.queue, j.kind) AND h.gate = j.gate AND h.rank = j.rank
                        AND h.seq <= j.seq
                      ORDER BY h.seq DESC LIMIT 1) h
                   WHERE h.seq = j.seq OR j.seq = ANY (h.more_seqs)) AS places
      FROM job j WHERE j.state = 0
), listed AS MATERIALIZED (
    SELECT e.queue, e.ended_ms, u.seq
      FROM (SELECT DISTINCT j.queue, j.ended_ms FROM job j WHERE j.state >= 2) d
      JOIN windlass.ended e ON e.queue = d.queue AND e.ended_ms = d.ended_ms CROSS JOIN unnest(e.seqs) AS u(seq)
)
SELECT 'job ' || p.id || ' is queued in ' || p.places || ' places' FROM placed p WHERE p.places <> 1
UNION ALL
SELECT 'key of job ' || j.id || ' is not held by it' FROM job j
 WHERE j.state = 1 AND j.key IS NOT NULL AND NOT EXISTS (
       SELECT FROM windlass.keys k WHERE k.queue = j.queue AND k.key = j.key AND k.holder = j.seq)
UNION ALL
SELECT 'nobody will see the lease of job ' || j.id || ' run out' FROM job j
 WHERE j.state = 1 AND NOT EXISTS (
       SELECT FROM windlass.claims c
        WHERE c.due_ms IS NOT NULL AND int8range(c.low, c.high, '[]') @> j.seq AND c.due_ms <= j.expires_ms
          AND c.fences[array_position(c.seqs, j.seq)] = j.fence)
UNION ALL
SELECT 'job ' || j.id || ' is finished and not listed as such'
  FROM (SELECT j.queue, j.ended_ms, j.seq FROM job j WHERE j.state >= 2
        EXCEPT SELECT e.queue, e.ended_ms, e.seq FROM listed e) missing
  JOIN windlass.jobs j ON j.seq = missing.seq
UNION ALL
SELECT 'job ' || j.id || ' miscounts its steps' FROM job j LEFT JOIN windlass.runs r ON r.seq = j.seq
 WHERE coalesce(r.steps_count, 0) <> (SELECT count(*) FROM windlass.steps s WHERE s.job_seq = j.seq)
UNION ALL
SELECT 'job ' || j.id || ' counts more attempts than it was claimed' FROM job j WHERE j.attempt > j.fence
UNION ALL
SELECT 'job ' || j.id || ' holds its dedupe key wrongly' FROM job j
 WHERE j.dedupe_held IS DISTINCT FROM CASE WHEN j.state < 2 THEN j.dedupe_key END
UNION ALL
SELECT 'job ' || j.id || ' is open with a dedupe key, which its claim does not let go of' FROM job j
 WHERE j.pack IS NOT NULL AND j.dedupe_key IS NOT NULL
