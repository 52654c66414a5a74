SELECT rank, seq FROM jobs INDEXED BY jobs_key_ready WHERE queue = ?1 AND key = ?2 AND gate = ?3 AND lane = 1
