UPDATE records SET rev = ?2, written_ms = ?3, value = ?4, sort = ?5, expires_ms = ?6, label = ?7 WHERE id = ?1
