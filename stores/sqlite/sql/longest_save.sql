-- Mirrors Book::note_lease.
INSERT INTO longest (queue, lease_ms, at_ms) VALUES (?1, ?2, ?3)
ON CONFLICT (queue) DO UPDATE SET lease_ms = ?2, at_ms = ?3 WHERE lease_ms <= ?2 OR at_ms < ?4
