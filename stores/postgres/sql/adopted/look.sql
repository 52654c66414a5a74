-- The locks that are near their end or past it, with their ends and with the time: the first of the two looks, which
-- the process keeps in its memory, since the table has no room for it.
WITH moment AS MATERIALIZED (SELECT {now} AS now)
SELECT t.{id}::text, {lock_us}, (extract(epoch FROM m.now) * 1000)::bigint
  FROM {table} t CROSS JOIN moment m
 WHERE t.{status} IN ({open}) AND t.{status} = {running} AND ({predicate})
   AND {due} <= (SELECT now FROM moment) + $2::bigint * interval '1 millisecond'
 ORDER BY {order}
 LIMIT $3
