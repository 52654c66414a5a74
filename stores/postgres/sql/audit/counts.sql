-- What was counted against what is there. Whatever runs has a lease in "claims": the audit of jobs sees to that.
WITH leased AS (
    SELECT DISTINCT u.seq FROM windlass.claims c CROSS JOIN unnest(c.seqs) AS u(seq) WHERE c.due_ms IS NOT NULL
), running AS MATERIALIZED (
    SELECT j.queue, j.budgets FROM leased l JOIN windlass.jobs_1 j ON j.seq = l.seq AND j.state = 1
), counted AS (
    SELECT 0 AS what, r.queue AS name, count(*) AS running FROM running r GROUP BY r.queue
    UNION ALL
    SELECT 1, b.name, count(*) FROM running r CROSS JOIN unnest(r.budgets) AS b(name) GROUP BY b.name
    UNION ALL
    SELECT 2, d.queue, count(*) FROM windlass.delayed d GROUP BY d.queue
), tallied AS (
    SELECT t.what, t.name, sum(t.delta) AS running FROM windlass.tally t GROUP BY t.what, t.name
)
SELECT CASE WHEN what = 2 THEN 'delayed jobs of ' ELSE 'running jobs of ' END || name || ': '
       || coalesce(c.running, 0) || ', counted as ' || coalesce(t.running, 0)
  FROM counted c FULL JOIN tallied t USING (what, name) WHERE coalesce(c.running, 0) <> coalesce(t.running, 0)
