-- name: before
SELECT id, rev, sort, expires_ms, label FROM records WHERE shelf = ?1 AND key = ?2

-- name: count
SELECT label, count(*) FROM records
WHERE shelf = ?1 AND key >= ?2 AND key < ?3 AND (expires_ms IS NULL OR expires_ms > ?4)
GROUP BY label ORDER BY label

-- name: delete
DELETE FROM records WHERE id = ?1

-- name: insert
INSERT INTO records (shelf, key, sort, rev, written_ms, expires_ms, label, value)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: read
SELECT key, sort, rev, written_ms, expires_ms, label, value FROM records
WHERE shelf = ?1 AND key = ?2 AND (expires_ms IS NULL OR expires_ms > ?3)

-- name: scan
-- The words in braces are filled in by src/scan.rs, from what was asked.
SELECT key, sort, rev, written_ms, expires_ms, label, value FROM records INDEXED BY {index}
WHERE shelf = ?1 AND {range} AND {label} AND (expires_ms IS NULL OR expires_ms > ?5)
ORDER BY {order} LIMIT ?6

-- name: shift
-- Only after the clock was set back: what had expired stays so.
UPDATE records SET expires_ms = ?1 WHERE expires_ms > ?1 AND expires_ms <= ?2

-- name: sweep
DELETE FROM records WHERE id IN (SELECT id FROM records WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)

-- name: update
UPDATE records SET rev = ?2, written_ms = ?3, value = ?4, sort = ?5, expires_ms = ?6, label = ?7 WHERE id = ?1

-- name: update_value
-- Where it stands in the orders of its shelf is not touched, and neither are their indexes.
UPDATE records SET rev = ?2, written_ms = ?3, value = ?4 WHERE id = ?1
