DELETE FROM events WHERE position IN (SELECT position FROM events WHERE position <= ?1 ORDER BY position LIMIT ?2)
