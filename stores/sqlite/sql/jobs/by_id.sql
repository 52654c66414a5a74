WHERE jobs.id = ?1
