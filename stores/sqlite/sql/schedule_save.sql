INSERT INTO schedules (name, body, next_ms) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET body = ?2, next_ms = ?3
