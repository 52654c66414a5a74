WHERE jobs.seq = ?1
