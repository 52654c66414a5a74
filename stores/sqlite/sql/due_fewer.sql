-- A number that would fall to zero or below breaks a CHECK, and with it the operation.
UPDATE due SET jobs = jobs - ?3 WHERE queue = ?1 AND run_at_ms = ?2
