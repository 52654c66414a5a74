UPDATE leases SET expires_ms = min(max(expires_ms + ?1, ?2), ?3)
