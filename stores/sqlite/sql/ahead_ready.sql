SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_ready WHERE lane = 1 AND gate = ?1 AND (rank, seq) < (?2, ?3) LIMIT ?4
)
