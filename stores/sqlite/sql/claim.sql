-- All jobs with leases of one length: a statement for each would open and close its nine indexes for each. OR FAIL:
-- what a failed call has written is undone as a whole, so SQLite need not keep a journal of the statement alone.
UPDATE OR FAIL jobs SET
  state = 1, lane = NULL, fence = fence + 1, attempt = attempt + 1,
  started_ms = ?2, worker = ?3, lease_ms = ?4, expires_ms = ?5
WHERE seq IN (SELECT value FROM rarray(?1))
