-- Due, and not yet moved by a claim.
SELECT queue, min(run_at_ms) FROM jobs INDEXED BY jobs_delayed WHERE lane = 2 AND run_at_ms <= ?1 GROUP BY queue
