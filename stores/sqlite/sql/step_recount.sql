UPDATE jobs SET steps_count = ?2 WHERE seq = ?1
