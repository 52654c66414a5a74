UPDATE leases SET expires_ms = ?2 WHERE seq = ?1
