-- Two ranges, since one over (rank, seq) would be read to its end when all ranks are the same.
SELECT count(*) FROM (
  SELECT 1 FROM (SELECT seq FROM shown WHERE gate = ?1 AND rank < ?2 LIMIT ?4)
  UNION ALL
  SELECT 1 FROM (SELECT seq FROM shown WHERE gate = ?1 AND rank = ?2 AND seq < ?3 LIMIT ?4)
)
