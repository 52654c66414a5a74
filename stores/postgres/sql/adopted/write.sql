-- A write of a worker: it changes a row that this worker holds, and no other.
UPDATE {table} t SET {set}
  FROM (SELECT {now} AS now) m
 WHERE t.{id} = $2::text::{id_type} AND t.{status} = {running} AND t.{owner} = $3 AND {fence_is}
   AND {locked_until} > m.now
RETURNING 1
