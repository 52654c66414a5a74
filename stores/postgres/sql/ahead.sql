SELECT count(*) FROM (
    SELECT FROM (
        SELECT j.rank, j.seq FROM windlass.jobs j WHERE j.lane = 1 AND j.queue = $1 AND j.run_at_ms <= $2
        UNION ALL
        SELECT j.rank, j.seq FROM windlass.jobs j WHERE j.lane = 2 AND j.queue = $1 AND j.run_at_ms <= $2
        UNION ALL
        SELECT j.rank, j.seq FROM windlass.jobs j WHERE j.lane = 3 AND j.queue = $1 AND j.run_at_ms <= $2) due
     WHERE (due.rank, due.seq) < ($3, $4)
     LIMIT $5) first
