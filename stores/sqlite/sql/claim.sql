UPDATE jobs SET
  state = 1, lane = NULL, fence = ?2, attempt = ?3, started_ms = ?4, worker = ?5, lease_ms = ?6, expires_ms = ?7
WHERE seq = ?1
