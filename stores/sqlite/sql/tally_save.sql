-- Guarded: a number below zero breaks a CHECK and with it the operation.
-- An upsert would test the CHECK on the row that it means to insert, so the row comes first.
INSERT INTO tallies (sort, name, queued, running, finished)
VALUES (?1, ?2, max(?3, 0), max(?4, 0), max(?5, 0))
ON CONFLICT (sort, name) DO UPDATE SET
  queued = queued + ?3, running = running + ?4, finished = finished + ?5
