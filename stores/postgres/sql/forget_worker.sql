DELETE FROM windlass.workers WHERE name = $1
