DELETE FROM line WHERE slot = ?1 AND gate = ?2 AND (rank, seq) <= (?3, ?4)
