SELECT queued, running, finished FROM tallies WHERE sort = ?1 AND name = ?2
