SELECT windlass.prune_jobs_1($1, $2, $3, $4)
