-- Whether the one before it waits. Those that have left stand before all that wait: if it has left, all have.
SELECT leases.seq IS NULL AND coalesce(past.state, 0) = 0
FROM line LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
WHERE slot = ?1 AND gate = ?2 AND (rank, line.seq) < (?3, ?4) ORDER BY rank DESC, line.seq DESC LIMIT 1
