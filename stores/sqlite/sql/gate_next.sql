SELECT ready.gate, queue, kind, budgets FROM ready CROSS JOIN jobs ON jobs.seq = ready.seq
WHERE ready.gate >= ?1 ORDER BY ready.gate, ready.rank, ready.seq LIMIT 1
