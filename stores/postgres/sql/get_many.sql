SELECT * FROM windlass.jobs_1 WHERE id = ANY ($1)
