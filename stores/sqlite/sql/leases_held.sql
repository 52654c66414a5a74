-- CROSS JOIN: SQLite must not turn the loops around.
SELECT seq, fence FROM rarray(?1) AS asked CROSS JOIN leases ON seq = asked.value
