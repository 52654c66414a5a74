SELECT position, at_ms, what, queue, jobs, action FROM events WHERE position > ?1 ORDER BY position LIMIT ?2
