INSERT INTO leases (seq, fence, attempt, started_ms, lease_ms, expires_ms, worker)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
