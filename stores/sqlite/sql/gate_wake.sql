UPDATE gates SET awake = 1 WHERE number = ?1 AND awake = 0
