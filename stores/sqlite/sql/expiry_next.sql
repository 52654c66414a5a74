SELECT expires_ms FROM jobs INDEXED BY jobs_expiry WHERE state = 1 ORDER BY expires_ms LIMIT 1
