DELETE FROM long_leases WHERE until_ms < ?1
