SELECT body FROM schedules WHERE next_ms <= ?1 ORDER BY name
