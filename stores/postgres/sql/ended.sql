-- name: unlist
-- Takes jobs that are deleted off the list of those that have ended. What is left is reckoned from the row as it is
-- when it is locked, and not as it was when it was found.
WITH gone AS MATERIALIZED (
    SELECT u.queue, u.ended_ms, array_agg(u.seq) AS seqs
      FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u(queue, ended_ms, seq) GROUP BY u.queue, u.ended_ms
)
UPDATE windlass.ended e
   SET seqs = ARRAY(SELECT s.seq FROM unnest(e.seqs) AS s(seq) WHERE s.seq <> ALL (g.seqs)),
       jobs = (SELECT count(*) FROM unnest(e.seqs) AS s(seq) WHERE s.seq <> ALL (g.seqs))
  FROM gone g
 WHERE e.queue = g.queue AND e.ended_ms = g.ended_ms AND e.seqs && g.seqs

-- name: unlist_empty
DELETE FROM windlass.ended e USING unnest($1::text[], $2::bigint[]) AS u(queue, ended_ms)
 WHERE e.queue = u.queue AND e.ended_ms = u.ended_ms AND e.jobs = 0
