-- What must hold of the rows of "ended" in these pages.
SELECT 'listed as finished and not so: ' || u.seq FROM windlass.ended e CROSS JOIN unnest(e.seqs) AS u(seq)
  LEFT JOIN windlass.jobs j ON j.seq = u.seq AND j.queue = e.queue
  LEFT JOIN windlass.runs r ON r.seq = j.seq AND r.state >= 2 AND r.ended_ms = e.ended_ms
 WHERE e.ctid >= $1::text::tid AND e.ctid < $2::text::tid AND r.seq IS NULL
