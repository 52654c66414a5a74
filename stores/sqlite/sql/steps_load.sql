SELECT name, output, attempt, stored_ms FROM steps WHERE seq = ?1 ORDER BY ordinal
