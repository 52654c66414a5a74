SELECT id FROM jobs INDEXED BY jobs_dedupe WHERE dedupe_key = ?1 AND state < 2
