SELECT run_at_ms, queue, kind FROM jobs INDEXED BY jobs_delayed WHERE lane = 2 ORDER BY run_at_ms LIMIT ?1
