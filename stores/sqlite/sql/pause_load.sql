SELECT pause_ms FROM pauses WHERE queue = ?1
