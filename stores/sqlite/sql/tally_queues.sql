SELECT name, queued, running, finished FROM tallies WHERE sort = ?1 ORDER BY name
