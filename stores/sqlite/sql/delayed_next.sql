SELECT delayed.run_at_ms, queue, kind FROM delayed CROSS JOIN jobs ON jobs.seq = delayed.seq
ORDER BY delayed.run_at_ms, delayed.seq LIMIT ?1
