UPDATE jobs SET run_at_ms = ?2, crashes = ?3, retries = ?4, progress = ?5, history = ?6 WHERE seq = ?1
