SELECT 1 FROM line LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
WHERE slot = ?1 AND gate = ?2 AND (rank, line.seq) < (?3, ?4) AND leases.seq IS NULL AND coalesce(past.state, 0) = 0
ORDER BY rank DESC, line.seq DESC LIMIT 1
