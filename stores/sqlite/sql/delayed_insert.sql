INSERT INTO delayed (run_at_ms, seq) VALUES (?1, ?2)
