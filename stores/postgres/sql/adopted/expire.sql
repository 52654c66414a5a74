-- Takes back locks that have run out: for another try, or for good when there is none left.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
lost AS MATERIALIZED (
    SELECT t.{id} AS id,
           coalesce(t.{tries}, 0) >= $2 OR NOT ({crashes_left}) AS spent
      FROM {table} t CROSS JOIN moment
     WHERE t.{status} = {running} AND coalesce({locked_until} <= moment.now, true) AND ({predicate})
     ORDER BY {order}
     LIMIT $3 FOR UPDATE OF t SKIP LOCKED
)
UPDATE {table} t
   SET {status} = CASE WHEN lost.spent THEN {failed} ELSE {retry} END, {owner} = NULL, {locked_until_column} = NULL{set_crash_error}{add_crash}
  FROM lost
 WHERE t.{id} = lost.id
RETURNING t.{id}::text
