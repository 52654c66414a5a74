-- What must hold of the rows of "ready" in these pages.
WITH place AS MATERIALIZED (
    SELECT u.seq, u.id, h.fence, h.run_at_ms, h.known, h.deduped, h.label, h.key, h.room, h.gate, h.rank, h.seq AS first
      FROM windlass.ready h CROSS JOIN unnest(h.seq || h.more_seqs, h.id || h.more_ids) AS u(seq, id)
     WHERE h.ctid >= $1::text::tid AND h.ctid < $2::text::tid
), open AS MATERIALIZED (
    SELECT s.seq FROM (SELECT DISTINCT p.seq >> 6 AS block FROM place p) b JOIN windlass.grants g ON g.block = b.block
     CROSS JOIN LATERAL windlass.seqs_1(g.block, g.open) AS s(seq)
), found AS MATERIALIZED (
    SELECT p.seq AS place, p.id AS place_id, p.fence AS next_fence, p.run_at_ms AS place_run_at_ms,
           p.known, p.deduped, p.label, p.key AS place_key, p.gate AS place_gate, p.rank AS place_rank,
           j.seq IS NOT NULL AND coalesce(r.state, 0) = 0
           AND (r.seq IS NOT NULL OR j.seq NOT IN (SELECT o.seq FROM open o)) AS queued,
           j.seq, j.id, j.kind, j.queue, j.key, j.budgets, j.dedupe_key, j.gate, j.rank, r.seq AS run,
           coalesce(r.fence, 0) AS fence, coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms
      FROM place p LEFT JOIN windlass.jobs j ON j.seq = p.seq LEFT JOIN windlass.runs r ON r.seq = j.seq
)
SELECT 'place of a job that is not queued: ' || f.place || ' is ready' FROM found f WHERE f.queued IS NOT TRUE
UNION ALL
SELECT 'job ' || p.id || ' stands in two rows of those that are ready' FROM place p
 WHERE p.first <> p.seq AND p.first <> (
       SELECT max(h.seq) FROM windlass.ready h
        WHERE h.room = p.room AND h.gate = p.gate AND h.rank = p.rank AND h.seq <= p.seq)
UNION ALL
SELECT 'job ' || p.id || ' is named twice by a row of those that are ready' FROM place p
 GROUP BY p.id, p.room, p.gate, p.rank, p.first HAVING count(*) > 1
UNION ALL
SELECT 'job ' || f.id || ' is ready at another gate than its own' FROM found f
 WHERE f.seq IS NOT NULL AND (f.place_gate, f.place_rank) <> (f.gate, f.rank)
UNION ALL
SELECT 'job ' || f.id || ' is ready and its key is running' FROM found f
  JOIN windlass.keys k ON k.queue = f.queue AND k.key = f.key AND k.holder IS NOT NULL
 WHERE f.key IS NOT NULL AND f.queued
UNION ALL
SELECT 'job ' || f.id || ' differs from what its place says of it' FROM found f
 WHERE f.queued
   AND (f.place_id, f.next_fence, f.place_run_at_ms, f.known, f.deduped, f.label, f.place_key)
       IS DISTINCT FROM (f.id, f.fence + 1, f.run_at_ms, f.run IS NOT NULL, f.dedupe_key IS NOT NULL,
                         windlass.label_1(f.queue, f.kind, f.key, f.budgets), f.key)
