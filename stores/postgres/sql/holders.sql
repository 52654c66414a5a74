SELECT id, queue, worker FROM windlass.jobs_1 WHERE id = ANY ($1)
