SELECT gate, seq FROM jobs INDEXED BY jobs_waiting
WHERE lane = 3 AND queue = ?1 AND key = ?2 AND gate BETWEEN ?3 AND ?4
ORDER BY gate, rank, seq LIMIT 1
