UPDATE delayed SET run_at_ms = ?1 WHERE run_at_ms > ?1 AND run_at_ms <= ?2
