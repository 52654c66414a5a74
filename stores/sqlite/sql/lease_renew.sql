UPDATE leases SET expires_ms = ?2, marked_ms = NULL WHERE seq = ?1
