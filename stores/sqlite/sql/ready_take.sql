DELETE FROM ready WHERE gate = ?1 AND (rank, seq) <= (?2, ?3)
