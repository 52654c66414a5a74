-- name: recall
SELECT first_rev, writes, jobs FROM batches WHERE id = ?1

-- name: remember
INSERT INTO batches (id, at_ms, first_rev, writes, jobs) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: sweep
DELETE FROM batches WHERE id IN (SELECT id FROM batches WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)
