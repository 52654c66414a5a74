DELETE FROM line WHERE slot = ?1 AND gate = ?2 AND rank = ?3 AND seq = ?4
