DELETE FROM claims_made WHERE request_id IN (SELECT request_id FROM claims_made WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)
