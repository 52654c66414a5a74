SELECT gate, queue, kind, budgets FROM jobs INDEXED BY jobs_ready
WHERE lane = 1 AND gate >= ?1 ORDER BY gate, rank, seq LIMIT 1
