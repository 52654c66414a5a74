-- What must hold of the jobs, runs and steps with numbers from $1 up to $2. Each row of the answer is a breach.
WITH lease AS MATERIALIZED (
    SELECT s.seq, g.due_ms, g.fence, g.label, g.open & windlass.bit_1(s.seq) <> 0 AS open
      FROM windlass.grants g CROSS JOIN LATERAL windlass.seqs_1(g.block, g.given) AS s(seq)
     WHERE g.block >= $1::bigint >> 6 AND g.block <= $2::bigint >> 6 AND s.seq >= $1 AND s.seq < $2
), open AS MATERIALIZED (
    SELECT l.seq, max(l.fence) AS fence, min(l.due_ms) AS due_ms FROM lease l WHERE l.open GROUP BY l.seq
), step AS MATERIALIZED (
    SELECT s.job_seq AS seq, count(*) AS steps FROM windlass.steps s WHERE s.job_seq >= $1 AND s.job_seq < $2
     GROUP BY s.job_seq
), job AS MATERIALIZED (
    SELECT j.seq, j.id, j.kind, j.queue, j.key, j.dedupe_key, j.dedupe_held, j.budgets, j.gate, j.rank,
           coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms, r.ended_ms, coalesce(r.attempt, 0) AS attempt,
           coalesce(r.state, CASE WHEN o.seq IS NULL THEN 0 ELSE 1 END) AS state,
           coalesce(r.fence, o.fence, 0) AS fence, coalesce(r.expires_ms, o.due_ms) AS expires_ms,
           r.seq AS run, r.label, r.key AS run_key, r.deduped, r.steps_count, o.seq AS open
      FROM (SELECT * FROM windlass.jobs j WHERE j.seq >= $1 AND j.seq < $2) j
      FULL JOIN (SELECT * FROM windlass.runs r WHERE r.seq >= $1 AND r.seq < $2) r ON r.seq = j.seq
      LEFT JOIN open o ON o.seq = j.seq
), placed AS MATERIALIZED (
    SELECT j.id, (SELECT count(*) FROM windlass.delayed d
                   WHERE d.queue = j.queue AND d.run_at_ms = j.run_at_ms AND d.seq = j.seq)
               + CASE WHEN j.key IS NULL THEN 0 ELSE (
                 SELECT count(*) FROM windlass.waiting w
                  WHERE w.queue = j.queue AND w.key = j.key AND w.gate = j.gate AND w.rank = j.rank
                    AND w.seq = j.seq) END
               + (SELECT count(*) FROM (
                     SELECT h.seq, h.more_seqs FROM windlass.ready h
                      WHERE h.room = windlass.room_1(j.queue, j.kind) AND h.gate = j.gate AND h.rank = j.rank
                        AND h.seq <= j.seq
                      ORDER BY h.seq DESC LIMIT 1) h
                   WHERE h.seq = j.seq OR j.seq = ANY (h.more_seqs)) AS places
      FROM job j WHERE j.state = 0 AND j.seq IS NOT NULL
), listed AS MATERIALIZED (
    SELECT d.queue, d.ended_ms, e.seq
      FROM (SELECT DISTINCT j.queue, j.ended_ms FROM job j WHERE j.state >= 2) d
     CROSS JOIN LATERAL (
           SELECT u.seq FROM windlass.ended e CROSS JOIN unnest(e.seqs) AS u(seq)
            WHERE e.queue = d.queue AND e.ended_ms = d.ended_ms AND u.seq >= $1 AND u.seq < $2) e
)
SELECT 'job ' || p.id || ' is queued in ' || p.places || ' places' FROM placed p WHERE p.places <> 1
UNION ALL
SELECT 'key of job ' || j.id || ' is not held by it' FROM job j
 WHERE j.state = 1 AND j.key IS NOT NULL AND (
       SELECT k.holder FROM windlass.keys k WHERE k.queue = j.queue AND k.key = j.key) IS DISTINCT FROM j.seq
UNION ALL
SELECT 'nobody will see the lease of job ' || j.id || ' run out'
  FROM (SELECT j.id FROM job j WHERE j.state = 1 AND j.id IS NOT NULL
        EXCEPT SELECT j.id FROM job j JOIN lease l ON l.seq = j.seq AND l.due_ms <= j.expires_ms) j
UNION ALL
SELECT 'job ' || l.seq || ' is granted ' || count(*) || ' times' FROM lease l GROUP BY l.seq HAVING count(*) > 1
UNION ALL
SELECT 'job ' || l.seq || ' is granted, and does not run' FROM lease l LEFT JOIN job j ON j.seq = l.seq
 WHERE j.state IS DISTINCT FROM 1
UNION ALL
SELECT 'job ' || j.id || ' is open in its grant, and has a row of its own or another gate' FROM lease l
  JOIN job j ON j.seq = l.seq
 WHERE l.open AND (j.run IS NOT NULL OR l.label <> windlass.label_1(j.queue, j.kind, j.key, j.budgets))
UNION ALL
SELECT 'job ' || j.id || ' is finished and not listed as such'
  FROM (SELECT j.queue, j.ended_ms, j.seq, j.id FROM job j WHERE j.state >= 2 AND j.id IS NOT NULL) j
  LEFT JOIN listed e ON e.seq = j.seq AND e.queue = j.queue AND e.ended_ms = j.ended_ms WHERE e.seq IS NULL
UNION ALL
SELECT 'job ' || j.id || ' miscounts its steps' FROM job j LEFT JOIN step s ON s.seq = j.seq
 WHERE j.id IS NOT NULL AND coalesce(j.steps_count, 0) <> coalesce(s.steps, 0)
UNION ALL
SELECT 'step of a job that is gone: ' || s.seq FROM step s LEFT JOIN job j ON j.seq = s.seq WHERE j.seq IS NULL
UNION ALL
SELECT 'run of a job that is gone: ' || j.run FROM job j WHERE j.id IS NULL
UNION ALL
SELECT 'job ' || j.id || ' differs from what its run says of it' FROM job j
 CROSS JOIN LATERAL windlass.label_1(j.queue, j.kind, j.key, j.budgets) AS l(label)
 WHERE j.id IS NOT NULL AND j.run IS NOT NULL
   AND (coalesce(j.label, l.label), CASE WHEN j.label IS NULL THEN j.key ELSE j.run_key END, j.deduped)
       IS DISTINCT FROM (l.label, j.key, j.dedupe_key IS NOT NULL)
UNION ALL
SELECT 'job ' || j.id || ' counts more attempts than it was claimed' FROM job j
 WHERE j.id IS NOT NULL AND j.attempt > j.fence
UNION ALL
SELECT 'job ' || j.id || ' holds its dedupe key wrongly' FROM job j
 WHERE j.id IS NOT NULL AND j.dedupe_held IS DISTINCT FROM CASE WHEN j.state < 2 THEN j.dedupe_key END
UNION ALL
SELECT 'job ' || j.id || ' is open with a dedupe key, which its grant does not let go of' FROM job j
 WHERE j.run IS NULL AND j.open IS NOT NULL AND j.dedupe_key IS NOT NULL
