SELECT count(*) FROM (
    SELECT FROM (
        SELECT r.rank, u.seq FROM windlass.ready r CROSS JOIN unnest(r.seq || r.more_seqs) AS u(seq)
         WHERE r.room BETWEEN windlass.room_1($1, NULL) AND windlass.room_1($1, NULL) | 4294967295
             AND split_part(r.label, chr(31), 1) = $1 AND r.run_at_ms <= $2
        UNION ALL
        SELECT j.rank, j.seq FROM windlass.delayed d JOIN windlass.jobs j ON j.seq = d.seq WHERE d.queue = $1
            AND d.run_at_ms <= $2
        UNION ALL
        SELECT w.rank, w.seq FROM windlass.waiting w WHERE w.queue = $1 AND w.run_at_ms <= $2) due
     WHERE (due.rank, due.seq) < ($3, $4)
     LIMIT $5) first
