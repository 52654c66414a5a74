SELECT doc FROM windlass.schedules ORDER BY name FOR UPDATE
