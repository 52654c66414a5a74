-- The name before the abbreviation, by any case; of two, the one that is written as it was asked for.
SELECT id FROM States WHERE name = ?1 COLLATE NOCASE OR abbreviation = ?1 COLLATE NOCASE
ORDER BY name = ?1 DESC, name = ?1 COLLATE NOCASE DESC, abbreviation = ?1 DESC, id LIMIT 1
