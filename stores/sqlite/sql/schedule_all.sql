SELECT body FROM schedules ORDER BY name
