-- name: delete
DELETE FROM past WHERE seq = ?1

-- name: load
SELECT fence, attempt, started_ms, worker FROM past WHERE seq = ?1

-- name: save
INSERT INTO past (seq, state, fence, attempt, started_ms, ended_ms, reason, worker, result)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (seq) DO UPDATE SET
  state = ?2, fence = ?3, attempt = ?4, started_ms = ?5, ended_ms = ?6, reason = ?7, worker = ?8, result = ?9
