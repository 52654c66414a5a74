-- Moves the locks of rows that this worker holds, also of those that have run out and were not taken back. Rows are
-- locked in the order of their ids, here as in every write, so that two writes never wait for each other.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
asked AS (SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS a (id, owner, fence, lease_ms)),
held AS MATERIALIZED (
    SELECT t.{id} AS id, a.lease_ms, m.now
      FROM {table} t JOIN asked a ON t.{id} = a.id::{id_type} CROSS JOIN moment m
     WHERE t.{status} = {running} AND t.{owner} = a.owner AND {fence_is}
     ORDER BY t.{id} FOR UPDATE OF t
)
UPDATE {table} t SET {locked_until_column} = {new_lock}
  FROM held m
 WHERE t.{id} = m.id
RETURNING t.{id}::text
