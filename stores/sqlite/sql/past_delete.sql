DELETE FROM past WHERE seq = ?1
