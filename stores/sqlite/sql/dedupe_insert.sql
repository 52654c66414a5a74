INSERT INTO dedupes (dedupe_key, seq) VALUES (?1, ?2)
