SELECT body FROM workers WHERE name = ?1
