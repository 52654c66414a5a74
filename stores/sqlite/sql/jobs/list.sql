WHERE jobs.seq < ?1 ORDER BY jobs.seq DESC LIMIT ?2
