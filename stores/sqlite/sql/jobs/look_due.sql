-- When a lease is to be looked at mirrors Lease::look_at; max gives nothing for one that was never marked.
WHERE jobs.seq IN (
  SELECT seq FROM leases
  WHERE coalesce(max(expires_ms, marked_ms + min(max(lease_ms / 3, ?3), ?4)), expires_ms - min(lease_ms / 3, ?4)) <= ?1
  ORDER BY coalesce(max(expires_ms, marked_ms + min(max(lease_ms / 3, ?3), ?4)), expires_ms - min(lease_ms / 3, ?4)), seq LIMIT ?2)
