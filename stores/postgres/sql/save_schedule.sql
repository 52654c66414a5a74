UPDATE windlass.schedules SET doc = $2, next_ms = $3 WHERE name = $1
