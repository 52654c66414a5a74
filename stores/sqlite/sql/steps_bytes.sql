SELECT coalesce(sum(length(CAST(output AS BLOB))), 0) FROM steps WHERE seq = ?1
