SELECT id FROM dedupes CROSS JOIN jobs ON jobs.seq = dedupes.seq WHERE dedupes.dedupe_key = ?1
