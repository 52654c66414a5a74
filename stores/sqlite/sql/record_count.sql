SELECT label, count(*) FROM records
WHERE shelf = ?1 AND key >= ?2 AND key < ?3 AND (expires_ms IS NULL OR expires_ms > ?4)
GROUP BY label ORDER BY label
