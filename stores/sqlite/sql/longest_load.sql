SELECT lease_ms FROM longest WHERE queue = ?1 AND at_ms >= ?2
