-- Only after the clock was set back, so this one looks at all queued jobs.
UPDATE jobs SET run_at_ms = ?1 WHERE run_at_ms > ?1 AND run_at_ms <= ?2
  AND seq IN (
    SELECT seq FROM shown UNION ALL SELECT seq FROM delayed UNION ALL
    SELECT seq FROM line WHERE seq NOT IN (SELECT seq FROM leases)
      AND NOT EXISTS (SELECT 1 FROM past WHERE past.seq = line.seq AND state <> 0)
  )
