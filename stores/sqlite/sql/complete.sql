-- Those without a result, at once. CROSS JOIN: SQLite must not turn the loops around.
INSERT OR FAIL INTO past (seq, state, fence, attempt, started_ms, ended_ms, worker)
SELECT seq, 2, fence, attempt, started_ms, ?2, worker FROM rarray(?1) AS done CROSS JOIN leases ON seq = done.value
