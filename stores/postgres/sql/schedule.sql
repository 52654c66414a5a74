SELECT doc FROM windlass.schedules WHERE name = $1
