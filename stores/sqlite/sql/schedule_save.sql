INSERT INTO schedules (name, body) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET body = ?2
