SELECT min(expires_ms) FROM leases
