-- Takes rows that are ready and due, or whose worker let its lock run out, in
-- one statement. A row that has no try or crash left is for expire.sql. The
-- words stand here as literals, so that an index of these words alone is used; and
-- all else is one CASE, whose rows the planner does not underrate: it walks that
-- index in order and stops at the limit, instead of sorting the whole backlog.
WITH moment AS MATERIALIZED (SELECT m.now FROM (SELECT {now} AS now) m{warm}),
due AS MATERIALIZED (
    SELECT t.{id} AS id, t.{status} = {running} AS crashed
      FROM {table} t CROSS JOIN moment
     WHERE t.{status} IN ({open}) AND ({predicate})
       AND CASE WHEN coalesce(t.{tries}, 0) >= $2 THEN false
                WHEN t.{status} = {running} THEN coalesce({locked_until} <= moment.now, true) AND {crashes_left}
                ELSE coalesce({next_attempt} <= moment.now, true) END
     ORDER BY {order}
     LIMIT $3 FOR UPDATE OF t SKIP LOCKED
)
UPDATE {table} t
   SET {status} = {running}, {owner} = $4, {locked_until_column} = {lock_end}, {tries} = coalesce(t.{tries}, 0) + 1{set_fence}{set_request}{set_crashes}
  FROM due CROSS JOIN moment
 WHERE t.{id} = due.id
RETURNING t.{id}::text, {payload}::text, t.{tries}::bigint, {fence}::bigint, {crashes}::bigint, {stage}::text, {outputs}::text[],
          (extract(epoch FROM moment.now) * 1000)::bigint, ({order_text})::text
