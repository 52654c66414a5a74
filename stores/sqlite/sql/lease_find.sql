SELECT seq, queue, key, budgets, steps_count FROM jobs
WHERE id = ?1 AND fence = ?2 AND state = 1 AND expires_ms > ?3
