INSERT INTO queues (name, policy, paused) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET policy = ?2, paused = ?3
