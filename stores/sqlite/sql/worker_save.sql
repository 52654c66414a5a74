INSERT INTO workers (name, seen_ms, body) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET seen_ms = ?2, body = ?3
