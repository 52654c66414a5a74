-- Leases of one length, for jobs that were never claimed before. OR FAIL: what a failed call has
-- written is undone as a whole, so SQLite need not keep a journal of the statement alone.
INSERT OR FAIL INTO leases (seq, fence, attempt, started_ms, lease_ms, expires_ms, worker)
SELECT value, ?6, 1, ?2, ?3, ?4, ?5 FROM rarray(?1)
