UPDATE leases SET marked_ms = ?2 WHERE seq = ?1
