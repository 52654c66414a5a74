SELECT seq, rank, queue, key, gate FROM jobs INDEXED BY jobs_delayed
WHERE lane = 2 AND run_at_ms <= ?1 ORDER BY run_at_ms LIMIT ?2
