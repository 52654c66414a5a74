DELETE FROM claims WHERE request_id IN (SELECT request_id FROM claims WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)
