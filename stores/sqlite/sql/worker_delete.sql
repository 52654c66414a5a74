DELETE FROM workers WHERE name = ?1
