-- What must hold of the rows of "delayed" in these pages.
WITH place AS MATERIALIZED (
    SELECT d.queue, d.run_at_ms, d.seq FROM windlass.delayed d WHERE d.ctid >= $1::text::tid AND d.ctid < $2::text::tid
), open AS MATERIALIZED (
    SELECT u.seq FROM windlass.claims c CROSS JOIN unnest(c.seqs) AS u(seq)
     WHERE c.due_ms IS NOT NULL AND c.open > 0
       AND int8range(c.low, c.high, '[]') && (SELECT int8range(min(p.seq), max(p.seq), '[]') FROM place p)
)
SELECT 'place of a job that is not queued: ' || d.seq || ' is delayed' FROM place d
  LEFT JOIN windlass.jobs j ON j.seq = d.seq AND j.queue = d.queue
  LEFT JOIN windlass.runs r ON r.seq = d.seq
 WHERE (coalesce(r.state, 0) = 0 AND coalesce(r.run_at_ms, j.run_at_ms) = d.run_at_ms
        AND (r.seq IS NOT NULL OR j.seq NOT IN (SELECT o.seq FROM open o))) IS NOT TRUE
