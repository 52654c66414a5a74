SELECT delayed.run_at_ms, jobs.seq, gate_number, rank, slot, EXISTS (SELECT 1 FROM past WHERE past.seq = jobs.seq)
FROM delayed CROSS JOIN jobs ON jobs.seq = delayed.seq
WHERE delayed.run_at_ms <= ?1 ORDER BY delayed.run_at_ms, delayed.seq LIMIT ?2
