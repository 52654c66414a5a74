SELECT first_rev, writes, jobs FROM batches WHERE id = ?1
