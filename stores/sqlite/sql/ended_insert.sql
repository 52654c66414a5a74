INSERT INTO ended (queue, ended_ms, position, jobs) VALUES (?1, ?2, ?3, ?4)
