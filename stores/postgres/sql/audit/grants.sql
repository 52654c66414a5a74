-- What must hold of the rows of "grants" in these pages.
SELECT 'grant ' || g.number || ' is of a job that is gone: ' || s.seq
  FROM windlass.grants g CROSS JOIN LATERAL windlass.seqs_1(g.block, g.given) AS s(seq)
 WHERE g.ctid >= $1::text::tid AND g.ctid < $2::text::tid
   AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.seq = s.seq)
