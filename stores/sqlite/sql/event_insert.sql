INSERT INTO events (position, at_ms, what, queue, jobs) VALUES (?1, ?2, ?3, ?4, ?5)
