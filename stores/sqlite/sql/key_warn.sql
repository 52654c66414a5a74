UPDATE keys_taken SET seq = ?2, gate = ?3, rank = ?4, warned = 1 WHERE slot = ?1
