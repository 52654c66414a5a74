UPDATE leases SET expires_ms = min(max(expires_ms + ?1, ?2), ?3), marked_ms = min(max(marked_ms + ?1, ?2), ?3)
