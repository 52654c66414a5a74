INSERT INTO claims_made (request_id, at_ms, leases, asked) VALUES (?1, ?2, ?3, ?4)
