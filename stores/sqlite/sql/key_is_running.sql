SELECT 1 FROM jobs INDEXED BY jobs_key_running WHERE queue = ?1 AND key = ?2 AND state = 1
