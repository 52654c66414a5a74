SELECT seq, lease_ms, cancel_requested, steps_count, attempt FROM jobs
WHERE id = ?1 AND fence = ?2 AND state = 1 AND expires_ms > ?3
