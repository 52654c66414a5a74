-- Those of a key that wait and are not shown; the others are counted among the ready ones.
SELECT count(*) FROM (
  SELECT 1 FROM line CROSS JOIN jobs ON jobs.seq = line.seq
  LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
  WHERE (line.rank, line.seq) < (?2, ?3) AND queue = ?1 AND run_at_ms <= ?5
    AND leases.seq IS NULL AND coalesce(past.state, 0) = 0 AND NOT EXISTS (
      SELECT 1 FROM shown WHERE shown.gate = line.gate AND shown.rank = line.rank AND shown.seq = line.seq
    ) LIMIT ?4
)
