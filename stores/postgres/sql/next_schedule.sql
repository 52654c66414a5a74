SELECT min(next_ms) FROM windlass.schedules
