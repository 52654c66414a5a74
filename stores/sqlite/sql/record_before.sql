SELECT id, rev, sort, expires_ms, label FROM records WHERE shelf = ?1 AND key = ?2
