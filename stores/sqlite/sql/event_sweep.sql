DELETE FROM events WHERE position <= ?1
