INSERT INTO past (seq, state, fence, attempt, started_ms, ended_ms, worker, result)
SELECT seq, 2, fence, attempt, started_ms, ?2, worker, ?3 FROM leases WHERE seq = ?1
