SELECT 1 FROM steps WHERE seq = ?1 AND name = ?2
