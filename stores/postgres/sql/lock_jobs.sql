SELECT * FROM windlass.lock_jobs_1($1)
