INSERT INTO records (shelf, key, sort, rev, written_ms, expires_ms, label, value)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
