SELECT windlass.begin_1($1), (SELECT min(next_ms) FROM windlass.schedules)
