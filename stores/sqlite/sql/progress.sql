UPDATE jobs SET progress = ?2 WHERE seq = ?1
