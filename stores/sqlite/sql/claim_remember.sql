INSERT INTO claims (request_id, at_ms, leases) VALUES (?1, ?2, ?3)
