-- Moves the locks of rows that this worker holds, also of those that have run out and were not taken back. Rows are
-- locked in the order of their ids, here as in every write, so that two writes never wait for each other. Who has lost
-- his ticket does not say for how long he holds: then a lock is made no shorter.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
asked AS (SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS a (id, fence, lease_ms)),
held AS MATERIALIZED (
    SELECT t.{id} AS id, a.fence,
           greatest(m.now + coalesce(a.lease_ms, {lease_ms}) * interval '1 millisecond',
                    CASE WHEN a.lease_ms IS NULL THEN {locked_until} END) AS until
      FROM {table} t JOIN asked a ON t.{id} = a.id::{id_type} CROSS JOIN moment m
     WHERE t.{status} = {running} AND {is_held}
     ORDER BY t.{id} FOR UPDATE OF t
)
UPDATE {table} t SET {locked_until_column} = {new_lock}
  FROM held m
 WHERE t.{id} = m.id
RETURNING t.{id}::text, m.fence
