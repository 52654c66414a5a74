-- The same as in look_due.sql.
SELECT min(coalesce(max(expires_ms, marked_ms + min(max(lease_ms / 3, ?1), ?2)), expires_ms - min(lease_ms / 3, ?2))) FROM leases
