SELECT queue FROM jobs INDEXED BY jobs_ended WHERE state >= 2 AND queue > ?1 ORDER BY queue LIMIT 1
