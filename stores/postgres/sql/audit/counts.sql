-- What was counted against what is there. Whatever runs has its bit in "grants": the audit of jobs sees to that.
WITH running AS MATERIALIZED (
    SELECT j.queue, j.budgets
      FROM windlass.grants g CROSS JOIN LATERAL windlass.seqs_1(g.block, g.given) AS s(seq)
      JOIN windlass.jobs j ON j.seq = s.seq
), queued AS MATERIALIZED (
    SELECT split_part(r.label, chr(31), 1) AS name, sum(1 + coalesce(cardinality(r.more_seqs), 0)) AS jobs, 0 AS delayed
      FROM windlass.ready r GROUP BY 1
    UNION ALL
    SELECT w.queue, count(*), 0 FROM windlass.waiting w GROUP BY w.queue
    UNION ALL
    SELECT d.queue, count(*), count(*) FROM windlass.delayed d GROUP BY d.queue
), counted AS (
    SELECT 'running jobs of ' AS what, 0 AS sort, r.queue AS name, count(*) AS jobs FROM running r GROUP BY r.queue
    UNION ALL
    SELECT 'running jobs of ', 1, b.name, count(*) FROM running r CROSS JOIN unnest(r.budgets) AS b(name)
        GROUP BY b.name
    UNION ALL
    SELECT 'delayed jobs of ', 2, q.name, sum(q.delayed) FROM queued q GROUP BY q.name
    UNION ALL
    SELECT 'queued jobs of ', 3, q.name, sum(q.jobs) FROM queued q GROUP BY q.name
), tallied AS (
    SELECT CASE t.what WHEN 2 THEN 'delayed jobs of ' ELSE 'running jobs of ' END AS what, t.what::integer AS sort,
        t.name,
           sum(t.delta) AS jobs FROM windlass.tally t GROUP BY t.what, t.name
    UNION ALL
    SELECT 'queued jobs of ', 3, t.name, sum(t.queued) FROM windlass.tally t WHERE t.what = 0 GROUP BY t.name
)
SELECT what || name || ': ' || coalesce(c.jobs, 0) || ', counted as ' || coalesce(t.jobs, 0)
  FROM counted c FULL JOIN tallied t USING (what, sort, name) WHERE coalesce(c.jobs, 0) <> coalesce(t.jobs, 0)
