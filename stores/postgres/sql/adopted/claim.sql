-- Takes rows that are ready and due, in one statement. A row whose worker let its
-- lock run out, or that has no try left, is for expire.sql: a claim takes nothing back. The
-- words stand here as literals, so that an index of these words alone is used. Such
-- an index has the order first and the moment from which a row may be claimed last:
-- it is walked up to the limit, and rows that wait or are held are passed over in it
-- without being read. What is left is one CASE, whose rows the planner does not
-- underrate: else it would rather sort the whole backlog.
WITH moment AS MATERIALIZED (SELECT m.now FROM (SELECT {now} AS now) m{warm}),
due AS MATERIALIZED (
    SELECT t.{id} AS id
      FROM {table} t
     WHERE t.{status} IN ({open}) AND ({predicate})
       AND {due} <= (SELECT now FROM moment)
       AND CASE WHEN coalesce(t.{tries}, 0) >= $2 THEN false ELSE t.{status} <> {running} END
     ORDER BY {order}
     LIMIT $3 FOR UPDATE OF t SKIP LOCKED
)
UPDATE {table} t
   SET {status} = {running}, {owner} = {new_owner}, {locked_until_column} = {lock_end},
       {tries} = {tries_before} + 1{set_fence}{set_request}
  FROM due CROSS JOIN moment
 WHERE t.{id} = due.id
RETURNING t.{id}::text, {payload}::text, t.{tries}::bigint, {fence}::bigint, {crashes}::bigint, {stage}::text,
    {outputs}::text[],
          (extract(epoch FROM moment.now) * 1000)::bigint, ({order_text})::text
