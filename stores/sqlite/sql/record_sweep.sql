DELETE FROM records WHERE id IN (SELECT id FROM records WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)
