INSERT INTO events (position, at_ms, what, queue, jobs, action) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
