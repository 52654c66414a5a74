SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_waiting
  WHERE lane = 3 AND queue = ?1 AND (rank, seq) < (?2, ?3) AND run_at_ms <= ?5 LIMIT ?4
)
