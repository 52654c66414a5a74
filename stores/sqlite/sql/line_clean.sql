DELETE FROM line WHERE slot = ?1 AND gate = ?2 AND (
  EXISTS (SELECT 1 FROM leases WHERE leases.seq = line.seq)
  OR EXISTS (SELECT 1 FROM past WHERE past.seq = line.seq AND state <> 0)
)
