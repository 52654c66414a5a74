WHERE jobs.seq IN (SELECT seq FROM leases WHERE expires_ms <= ?1 ORDER BY expires_ms, seq LIMIT ?2)
ORDER BY leases.expires_ms, leases.seq
