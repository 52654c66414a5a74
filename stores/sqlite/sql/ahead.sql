-- name: delayed
-- Due, and not yet moved by a claim.
SELECT count(*) FROM (
  SELECT 1 FROM delayed CROSS JOIN jobs ON jobs.seq = delayed.seq
  WHERE delayed.run_at_ms <= ?5 AND queue = ?1 AND (rank, jobs.seq) < (?2, ?3) LIMIT ?4
)

-- name: shown
-- Two ranges, since one over (rank, seq) would be read to its end when all ranks are the same.
SELECT count(*) FROM (
  SELECT 1 FROM (SELECT seq FROM shown WHERE gate = ?1 AND rank < ?2 LIMIT ?4)
  UNION ALL
  SELECT 1 FROM (SELECT seq FROM shown WHERE gate = ?1 AND rank = ?2 AND seq < ?3 LIMIT ?4)
)

-- name: waiting
-- Those of a key that wait and are not shown; the others are counted among the ready ones.
SELECT count(*) FROM (
  SELECT 1 FROM line CROSS JOIN jobs ON jobs.seq = line.seq
  LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
  WHERE (line.rank, line.seq) < (?2, ?3) AND queue = ?1 AND run_at_ms <= ?5
    AND leases.seq IS NULL AND coalesce(past.state, 0) = 0 AND NOT EXISTS (
      SELECT 1 FROM shown WHERE shown.gate = line.gate AND shown.rank = line.rank AND shown.seq = line.seq
    ) LIMIT ?4
)
