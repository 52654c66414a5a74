-- After moments of many jobs were changed at once.
INSERT INTO due (queue, run_at_ms, jobs)
SELECT queue, run_at_ms, count(*) FROM jobs
WHERE seq IN (
    SELECT seq FROM shown UNION ALL SELECT seq FROM delayed UNION ALL
    SELECT seq FROM line WHERE seq NOT IN (SELECT seq FROM leases)
      AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = line.seq AND state <> 0)
  )
GROUP BY queue, run_at_ms
