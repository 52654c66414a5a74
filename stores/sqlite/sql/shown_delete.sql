DELETE FROM shown WHERE gate = ?1 AND rank = ?2 AND seq = ?3
