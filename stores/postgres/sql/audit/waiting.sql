-- What must hold of the rows of "waiting" in these pages.
WITH place AS MATERIALIZED (
    SELECT w.* FROM windlass.waiting w WHERE w.ctid >= $1::text::tid AND w.ctid < $2::text::tid
)
SELECT 'place of a job that is not queued: ' || w.seq || ' is waiting' FROM place w
 WHERE NOT EXISTS (SELECT FROM windlass.jobs_1 j WHERE j.seq = w.seq AND j.state = 0)
UNION ALL
SELECT 'job ' || w.id || ' waits at another gate than its own' FROM place w JOIN windlass.jobs j ON j.seq = w.seq
 WHERE (w.gate, w.rank) <> (j.gate, j.rank)
UNION ALL
SELECT 'job ' || w.id || ' waits for nobody' FROM place w
 WHERE NOT EXISTS (SELECT FROM windlass.keys k WHERE k.queue = w.queue AND k.key = w.key AND k.holder IS NOT NULL)
   AND NOT EXISTS (
       SELECT FROM windlass.ready r WHERE r.key = w.key AND r.label = w.label AND (r.rank, r.seq) < (w.rank, w.seq))
UNION ALL
SELECT 'job ' || w.id || ' waits in a gate that its key does not know' FROM place w
 WHERE NOT EXISTS (
       SELECT FROM windlass.keys k WHERE k.queue = w.queue AND k.key = w.key AND (k.gate IS NULL OR k.gate = w.gate))
UNION ALL
SELECT 'job ' || j.id || ' differs from what its place says of it'
  FROM place w JOIN windlass.jobs_1 j ON j.seq = w.seq AND j.state = 0
 WHERE (w.id, w.fence, w.run_at_ms, w.known, w.deduped, w.label, w.key)
       IS DISTINCT FROM (j.id, j.fence + 1, j.run_at_ms, EXISTS (SELECT FROM windlass.runs r WHERE r.seq = w.seq),
                         j.dedupe_key IS NOT NULL, windlass.label_1(j.queue, j.kind, j.key, j.budgets), j.key)
