-- Due, and not yet moved by a claim.
SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_delayed
  WHERE lane = 2 AND run_at_ms <= ?5 AND queue = ?1 AND (rank, seq) < (?2, ?3) LIMIT ?4
)
