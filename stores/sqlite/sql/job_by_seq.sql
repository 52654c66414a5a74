WHERE seq = ?1
