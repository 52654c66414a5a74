-- Whether a claim would find a row now; and in how many milliseconds the next lock is near its end, which a look is
-- for. One small read in place of claims and looks that find nothing. Where it is read seldom ($4), also when the next
-- row is due: else that would be read over and over, of all rows that wait.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
warm AS MATERIALIZED (SELECT m.now FROM moment m{warm})
SELECT EXISTS (
           SELECT FROM {table} t
            WHERE t.{status} IN ({open}) AND ({predicate})
              AND {due} <= (SELECT now FROM warm)
              AND CASE WHEN coalesce(t.{tries}, 0) >= $2 THEN false ELSE t.{status} <> {running} END),
       (SELECT (extract(epoch FROM min({locked_until}) - (SELECT now FROM moment)) * 1000)::bigint - $3
          FROM (SELECT * FROM {table} t WHERE t.{status} = {running} AND ({predicate}) LIMIT 256) t),
       CASE WHEN $4::bool THEN (
           SELECT (extract(epoch FROM min({due}) - (SELECT now FROM moment)) * 1000)::bigint
             FROM {table} t
            WHERE t.{status} IN ({ready}) AND ({predicate}) AND {due} > (SELECT now FROM moment)) END
