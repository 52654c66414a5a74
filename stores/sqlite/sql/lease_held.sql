SELECT jobs.seq, lease_ms, cancel_requested, steps_count, attempt FROM jobs CROSS JOIN leases ON leases.seq = jobs.seq
WHERE id = ?1 AND fence = ?2
