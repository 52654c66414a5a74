-- What must hold of the rows of "waiting" in these pages.
WITH place AS MATERIALIZED (
    SELECT w.* FROM windlass.waiting w WHERE w.ctid >= $1::text::tid AND w.ctid < $2::text::tid
), open AS MATERIALIZED (
    SELECT s.seq FROM (SELECT DISTINCT p.seq >> 6 AS block FROM place p) b JOIN windlass.grants g ON g.block = b.block
     CROSS JOIN LATERAL windlass.seqs_1(g.block, g.open) AS s(seq)
), found AS MATERIALIZED (
    SELECT w.seq AS place,
           j.seq IS NOT NULL AND coalesce(r.state, 0) = 0
           AND (r.seq IS NOT NULL OR j.seq NOT IN (SELECT o.seq FROM open o)) AS queued,
           j.seq, j.id, j.gate, j.rank,
           (w.id, w.fence, w.run_at_ms, w.known, w.deduped, w.label, w.key)
           IS DISTINCT FROM (j.id, coalesce(r.fence, 0) + 1, coalesce(r.run_at_ms, j.run_at_ms), r.seq IS NOT NULL,
                             j.dedupe_key IS NOT NULL, windlass.label_1(j.queue, j.kind, j.key, j.budgets),
                             j.key) AS differs,
           (w.gate, w.rank) <> (j.gate, j.rank) AS elsewhere
      FROM place w LEFT JOIN windlass.jobs j ON j.seq = w.seq LEFT JOIN windlass.runs r ON r.seq = w.seq
)
SELECT 'place of a job that is not queued: ' || f.place || ' is waiting' FROM found f WHERE f.queued IS NOT TRUE
UNION ALL
SELECT 'job ' || f.id || ' waits at another gate than its own' FROM found f WHERE f.elsewhere
UNION ALL
SELECT 'job ' || w.id || ' waits for nobody' FROM place w
 WHERE NOT EXISTS (SELECT FROM windlass.keys k WHERE k.queue = w.queue AND k.key = w.key AND k.holder IS NOT NULL)
   AND NOT EXISTS (
       SELECT FROM windlass.ready r
        WHERE r.key = w.key AND r.label >= w.queue || chr(31) AND r.label < w.queue || chr(32) AND r.gate = w.gate
          AND (r.rank, r.seq) < (w.rank, w.seq))
UNION ALL
SELECT 'job ' || w.id || ' waits in a gate that its key does not know' FROM place w
 WHERE NOT EXISTS (
       SELECT FROM windlass.keys k WHERE k.queue = w.queue AND k.key = w.key AND (k.gate IS NULL OR k.gate = w.gate))
UNION ALL
SELECT 'job ' || f.id || ' differs from what its place says of it' FROM found f WHERE f.queued AND f.differs
