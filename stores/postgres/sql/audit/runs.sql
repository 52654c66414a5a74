-- What must hold of the rows of "runs" in these pages.
WITH run AS MATERIALIZED (
    SELECT r.seq, r.label, r.key, r.deduped FROM windlass.runs r
     WHERE r.ctid >= $1::text::tid AND r.ctid < $2::text::tid
)
SELECT 'run of a job that is gone: ' || r.seq FROM run r
 WHERE NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.seq = r.seq)
UNION ALL
SELECT 'job ' || j.id || ' differs from what its run says of it' FROM run r JOIN windlass.jobs j ON j.seq = r.seq
 CROSS JOIN LATERAL windlass.label_1(j.queue, j.kind, j.key, j.budgets) AS l(label)
 WHERE (coalesce(r.label, l.label), CASE WHEN r.label IS NULL THEN j.key ELSE r.key END, r.deduped)
       IS DISTINCT FROM (l.label, j.key, j.dedupe_key IS NOT NULL)
