-- Only after the clock was set back, so this one looks at all queued jobs.
UPDATE jobs SET run_at_ms = ?1 WHERE state = 0 AND run_at_ms > ?1 AND run_at_ms <= ?2
