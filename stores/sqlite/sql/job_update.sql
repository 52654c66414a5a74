UPDATE jobs SET
  state = ?2, lane = ?3, run_at_ms = ?4, fence = ?5, attempt = ?6, lease_ms = ?7, expires_ms = ?8,
  cancel_requested = ?9, ended_ms = ?10, reason = ?11, crashes = ?12, retries = ?13, started_ms = ?14,
  worker = ?15, progress = ?16, result = ?17, history = ?18
WHERE seq = ?1
