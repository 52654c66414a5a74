SELECT * FROM windlass.jobs_1 WHERE id = $1
