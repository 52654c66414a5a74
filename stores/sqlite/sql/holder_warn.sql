UPDATE holders SET warned = 1 WHERE slot = ?1 AND warned = 0
