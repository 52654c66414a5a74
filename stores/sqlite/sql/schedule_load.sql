SELECT body FROM schedules WHERE name = ?1
