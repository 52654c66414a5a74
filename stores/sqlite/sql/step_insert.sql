INSERT INTO steps (seq, ordinal, name, output, attempt, stored_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
