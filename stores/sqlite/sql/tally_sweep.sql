DELETE FROM tallies WHERE queued = 0 AND running = 0 AND finished = 0
