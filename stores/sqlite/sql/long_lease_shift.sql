UPDATE long_leases SET until_ms = min(max(until_ms + ?1, ?2), ?3)
