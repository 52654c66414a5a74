DELETE FROM windlass.schedules WHERE name = $1 RETURNING name
