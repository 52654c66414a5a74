DELETE FROM long_leases WHERE queue = ?1 AND lease_ms < ?2
