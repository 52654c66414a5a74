UPDATE windlass.schedules SET doc = $2 WHERE name = $1
