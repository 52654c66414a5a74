SELECT queue, min(run_at_ms) FROM jobs INDEXED BY jobs_waiting
WHERE lane = 3 AND run_at_ms <= ?1 GROUP BY queue
