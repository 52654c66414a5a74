SELECT 1 FROM past WHERE seq = ?1 AND ended_ms = ?2
