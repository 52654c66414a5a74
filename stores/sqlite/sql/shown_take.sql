DELETE FROM shown WHERE gate = ?1 AND (rank, seq) <= (?2, ?3)
