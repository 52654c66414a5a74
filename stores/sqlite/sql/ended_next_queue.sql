SELECT queue FROM ended WHERE queue > ?1 ORDER BY queue LIMIT 1
