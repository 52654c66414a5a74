SELECT seq, steps_count, ended_ms FROM jobs INDEXED BY jobs_ended
WHERE state >= 2 AND queue = ?1 ORDER BY ended_ms, seq LIMIT ?2
