, ready.again, ready.heir FROM ready CROSS JOIN jobs ON jobs.seq = ready.seq
WHERE ready.gate = ?1 AND (ready.rank, ready.seq) > (?2, ?3) ORDER BY ready.rank, ready.seq LIMIT ?4
