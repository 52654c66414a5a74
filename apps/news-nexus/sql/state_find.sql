-- The name before the abbreviation, both as they are written.
SELECT id FROM States WHERE name = ?1 OR abbreviation = ?1 ORDER BY name = ?1 DESC, id LIMIT 1
