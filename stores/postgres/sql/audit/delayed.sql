-- What must hold of the rows of "delayed" in these pages.
WITH place AS MATERIALIZED (
    SELECT d.queue, d.run_at_ms, d.seq FROM windlass.delayed d WHERE d.ctid >= $1::text::tid AND d.ctid < $2::text::tid
), open AS MATERIALIZED (
    SELECT s.seq FROM (SELECT DISTINCT p.seq >> 6 AS block FROM place p) b JOIN windlass.grants g ON g.block = b.block
     CROSS JOIN LATERAL windlass.seqs_1(g.block, g.open) AS s(seq)
)
SELECT 'place of a job that is not queued: ' || d.seq || ' is delayed' FROM place d
  LEFT JOIN windlass.jobs j ON j.seq = d.seq AND j.queue = d.queue
  LEFT JOIN windlass.runs r ON r.seq = d.seq
 WHERE (coalesce(r.state, 0) = 0 AND coalesce(r.run_at_ms, j.run_at_ms) = d.run_at_ms
        AND (r.seq IS NOT NULL OR j.seq NOT IN (SELECT o.seq FROM open o))) IS NOT TRUE
