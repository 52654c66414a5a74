SELECT doc FROM windlass.schedules WHERE next_ms <= $1 ORDER BY name FOR UPDATE
