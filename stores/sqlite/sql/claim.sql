-- name: recall
SELECT leases, asked FROM claims_made WHERE request_id = ?1

-- name: remember
INSERT INTO claims_made (request_id, at_ms, leases, asked) VALUES (?1, ?2, ?3, ?4)

-- name: sweep
DELETE FROM claims_made WHERE request_id IN (SELECT request_id FROM claims_made WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)
