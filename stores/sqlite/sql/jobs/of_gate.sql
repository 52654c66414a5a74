, shown.again, shown.heir FROM shown CROSS JOIN jobs ON jobs.seq = shown.seq
WHERE shown.gate = ?1 AND (shown.rank, shown.seq) > (?2, ?3) ORDER BY shown.rank, shown.seq LIMIT ?4
