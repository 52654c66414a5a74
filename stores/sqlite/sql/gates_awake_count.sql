SELECT count(*) FROM (SELECT 1 FROM gates WHERE queue = ?1 AND awake = 1 LIMIT 2)
