-- The first that waits: rows of jobs that run or have ended count for nothing.
SELECT gate, rank, line.seq, again
FROM line LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
WHERE slot = ?1 AND gate = ?2 AND leases.seq IS NULL AND coalesce(past.state, 0) = 0
ORDER BY rank, line.seq LIMIT 1
