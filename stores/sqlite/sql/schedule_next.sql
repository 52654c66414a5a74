SELECT min(next_ms) FROM schedules
