SELECT run_at_ms FROM due WHERE queue = ?1 AND run_at_ms <= ?2 ORDER BY run_at_ms LIMIT 1
