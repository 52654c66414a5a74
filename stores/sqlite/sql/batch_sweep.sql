DELETE FROM batches WHERE id IN (SELECT id FROM batches WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)
