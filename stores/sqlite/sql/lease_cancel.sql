UPDATE leases SET cancel_requested = 1 WHERE seq = ?1
