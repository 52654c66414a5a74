-- The locks that are near their end or past it, with their ends: the first of the two looks, which the process keeps
-- in its memory, since the table has no room for it. With the time, with when the next lock comes near its end, and
-- with whether a row waits for a try which it does not have; these are told also when there is no lock to look at. It
-- is enough to look at some of the rows where there are very many: the sweep comes round anyway.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
near AS MATERIALIZED (
    SELECT t.{id}::text AS id, {lock_us} AS lock_us, row_number() OVER (ORDER BY {order}) AS place
      FROM {table} t
     WHERE t.{status} IN ({open}) AND t.{status} = {running} AND ({predicate})
       AND {due} <= (SELECT now FROM moment) + $2::bigint * interval '1 millisecond'
     ORDER BY {order}
     LIMIT $3
),
next AS (
    SELECT (extract(epoch FROM min({locked_until}) - (SELECT now FROM moment)) * 1000)::bigint - $2 AS in_ms
      FROM (SELECT * FROM {table} t WHERE t.{status} = {running} LIMIT 256) t
     WHERE {locked_until} > (SELECT now FROM moment) + $2::bigint * interval '1 millisecond'
)
SELECT n.id, n.lock_us, (extract(epoch FROM m.now) * 1000)::bigint, (SELECT in_ms FROM next),
       EXISTS (SELECT FROM {table} t WHERE t.{status} IN ({ready}) AND t.{tries} >= $4 AND ({predicate}))
  FROM moment m LEFT JOIN near n ON true
 ORDER BY n.place
