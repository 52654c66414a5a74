INDEXED BY jobs_expiry WHERE state = 1 AND expires_ms <= ?1 ORDER BY expires_ms, seq LIMIT ?2
