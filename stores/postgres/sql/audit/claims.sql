-- What must hold of the rows of "claims" in these pages.
WITH claim AS MATERIALIZED (
    SELECT c.* FROM windlass.claims c WHERE c.ctid >= $1::text::tid AND c.ctid < $2::text::tid AND c.due_ms IS NOT NULL
), lease AS MATERIALIZED (
    SELECT c.number, c.request_id, c.open, c.low, c.high, c.label, j.seq, j.id,
           windlass.label_1(j.queue, j.kind, j.key, j.budgets) AS jobs_label
      FROM claim c CROSS JOIN unnest(c.seqs) AS u(seq)
      LEFT JOIN windlass.jobs j ON j.seq = u.seq AND NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq)
)
SELECT 'claim ' || l.request_id || ' counts ' || l.open || ' open leases, and they are ' || count(l.seq) FROM lease l
 GROUP BY l.number, l.request_id, l.open HAVING count(l.seq) <> l.open
UNION ALL
SELECT 'job ' || l.id || ' lies outside of its claim, or differs from it' FROM lease l
 WHERE l.open > 0 AND l.seq IS NOT NULL AND (l.seq NOT BETWEEN l.low AND l.high OR l.label <> l.jobs_label)
