UPDATE jobs SET
  state = 2, ended_ms = ?2, result = ?3, lease_ms = NULL, expires_ms = NULL, cancel_requested = 0
WHERE seq = ?1
