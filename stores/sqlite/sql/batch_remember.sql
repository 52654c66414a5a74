INSERT INTO batches (id, at_ms, first_rev, writes, jobs) VALUES (?1, ?2, ?3, ?4, ?5)
