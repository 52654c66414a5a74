-- In order, with where each is in its life: whoever looks stops at the first that waits.
SELECT rank, line.seq, again, leases.seq IS NOT NULL, coalesce(past.state, 0) <> 0
FROM line LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
WHERE slot = ?1 AND gate = ?2 ORDER BY rank, line.seq
