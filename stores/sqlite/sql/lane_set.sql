UPDATE jobs SET lane = ?2 WHERE seq = ?1
