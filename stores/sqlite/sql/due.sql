-- name: clear
DELETE FROM due

-- name: count
-- After moments of many jobs were changed at once.
INSERT INTO due (queue, run_at_ms, jobs)
SELECT queue, run_at_ms, count(*) FROM jobs
WHERE seq IN (
    SELECT seq FROM shown UNION ALL SELECT seq FROM delayed UNION ALL
    SELECT seq FROM line WHERE seq NOT IN (SELECT seq FROM leases)
      AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = line.seq AND state <> 0)
  )
GROUP BY queue, run_at_ms

-- name: fewer
UPDATE due SET jobs = jobs - ?3 WHERE queue = ?1 AND run_at_ms = ?2

-- name: more
INSERT INTO due (queue, run_at_ms, jobs) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, run_at_ms) DO UPDATE SET jobs = jobs + ?3

-- name: none
-- The last of their moment go. More than are counted go, too: a number that people look at never holds up a job.
DELETE FROM due WHERE queue = ?1 AND run_at_ms = ?2 AND jobs <= ?3

-- name: oldest
SELECT run_at_ms FROM due WHERE queue = ?1 AND run_at_ms <= ?2 ORDER BY run_at_ms LIMIT 1

-- name: shift
-- Only after the clock was set back, so this one looks at all queued jobs.
UPDATE jobs SET run_at_ms = ?1 WHERE run_at_ms > ?1 AND run_at_ms <= ?2
  AND seq IN (
    SELECT seq FROM shown UNION ALL SELECT seq FROM delayed UNION ALL
    SELECT seq FROM line WHERE seq NOT IN (SELECT seq FROM leases)
      AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = line.seq AND state <> 0)
  )
