-- A number that would fall below zero breaks a CHECK, and with it the operation. The CHECK is also
-- tested on the row that would be inserted, even when it is there already: hence max().
INSERT INTO tallies (sort, name, queued, running, finished)
VALUES (?1, ?2, max(?3, 0), max(?4, 0), max(?5, 0))
ON CONFLICT (sort, name) DO UPDATE SET
  queued = queued + ?3, running = running + ?4, finished = finished + ?5
