-- Due, and not yet moved by a claim.
SELECT count(*) FROM (
  SELECT 1 FROM delayed CROSS JOIN jobs ON jobs.seq = delayed.seq
  WHERE delayed.run_at_ms <= ?5 AND queue = ?1 AND (rank, jobs.seq) < (?2, ?3) LIMIT ?4
)
