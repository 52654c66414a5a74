-- name: note
-- Mirrors LongLeases::note, with long_lease_shorter.sql.
INSERT INTO long_leases (queue, lease_ms, until_ms)
SELECT ?1, ?2, ?3
WHERE NOT EXISTS (SELECT 1 FROM long_leases WHERE queue = ?1 AND lease_ms >= ?2 AND until_ms >= ?4)
ON CONFLICT (queue, lease_ms) DO UPDATE SET until_ms = ?3

-- name: shift
UPDATE long_leases SET until_ms = min(max(until_ms + ?1, ?2), ?3)

-- name: shorter
DELETE FROM long_leases WHERE queue = ?1 AND lease_ms < ?2

-- name: sweep
DELETE FROM long_leases WHERE until_ms < ?1
