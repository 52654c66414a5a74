INSERT INTO due (queue, run_at_ms, jobs) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, run_at_ms) DO UPDATE SET jobs = jobs + ?3
