-- Those without a result, at once; a job that is running has none from before.
UPDATE OR FAIL jobs SET
  state = 2, ended_ms = ?2, lease_ms = NULL, expires_ms = NULL, cancel_requested = 0
WHERE seq IN (SELECT value FROM rarray(?1))
