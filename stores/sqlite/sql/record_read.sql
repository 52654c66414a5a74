SELECT key, sort, rev, written_ms, expires_ms, label, value FROM records
WHERE shelf = ?1 AND key = ?2 AND (expires_ms IS NULL OR expires_ms > ?3)
