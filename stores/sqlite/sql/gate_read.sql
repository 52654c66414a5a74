INDEXED BY jobs_ready
WHERE lane = 1 AND gate = ?1 AND (rank, seq) > (?2, ?3) ORDER BY rank, seq LIMIT ?4
