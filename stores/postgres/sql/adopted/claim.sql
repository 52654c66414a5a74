-- Takes rows that are ready and due, or whose worker let its lock run out, in
-- one statement. A row that has no try or crash left is for expire.sql. The
-- words stand here as literals, so that an index of these words alone is used.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
due AS MATERIALIZED (
    SELECT t.{id} AS id, t.{status} = {running} AS crashed
      FROM {table} t CROSS JOIN moment
     WHERE t.{status} IN ({open})
       AND ((t.{status} IN ({ready}) AND coalesce({next_attempt} <= moment.now, true))
            OR (t.{status} = {running} AND coalesce({locked_until} <= moment.now, true)))
       AND coalesce(t.{tries}, 0) < $2 AND {crashes_left} AND ({predicate}){warm}
     ORDER BY {order}
     LIMIT $3 FOR UPDATE OF t SKIP LOCKED
)
UPDATE {table} t
   SET {status} = {running}, {owner} = $4, {locked_until_column} = {lock_end}, {tries} = coalesce(t.{tries}, 0) + 1{set_fence}{set_request}{set_crashes}
  FROM due CROSS JOIN moment
 WHERE t.{id} = due.id
RETURNING t.{id}::text, {payload}::text, t.{tries}::bigint, {fence}::bigint, {crashes}::bigint, {stage}::text, {outputs}::text[],
          (extract(epoch FROM moment.now) * 1000)::bigint, ({order_text})::text
