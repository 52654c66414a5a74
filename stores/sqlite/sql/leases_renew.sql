-- The beginning of an epoch: mirrors Lease::renew_from.
UPDATE leases SET expires_ms = max(expires_ms, min(?1 + lease_ms, ?2)), marked_ms = NULL
