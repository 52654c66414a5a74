UPDATE jobs INDEXED BY jobs_key_ready SET lane = 3 WHERE queue = ?1 AND key = ?2 AND lane = 1
