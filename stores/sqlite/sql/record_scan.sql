-- The words in braces are filled in by src/scan.rs, from what was asked.
SELECT key, sort, rev, written_ms, expires_ms, label, value FROM records INDEXED BY {index}
WHERE shelf = ?1 AND {range} AND {label} AND (expires_ms IS NULL OR expires_ms > ?5)
ORDER BY {order} LIMIT ?6
