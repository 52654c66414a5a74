DELETE FROM delayed WHERE run_at_ms = ?1 AND seq = ?2
