-- Takes back locks that have run out: for another try, or for good when there is none left.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
lost AS MATERIALIZED (
    SELECT t.{id} AS id, t.{owner} AS owner, t.{status} AS from_status, 'crashed' AS outcome,
           coalesce(t.{tries}, 0) >= $2 OR NOT ({crashes_left}) AS spent, m.now
      FROM {table} t CROSS JOIN moment m
     WHERE t.{status} IN ({open}) AND t.{status} = {running} AND ({predicate})
       AND {due} <= (SELECT now FROM moment)
     ORDER BY {order}
     LIMIT $3 FOR UPDATE OF t SKIP LOCKED
),
written AS (
    UPDATE {table} t
       SET {status} = CASE WHEN m.spent THEN {failed} ELSE {retry} END, {owner} = NULL, {locked_until_column} = NULL{set_crash_error}{set_expired}{add_crash}
      FROM lost m
     WHERE t.{id} = m.id
    RETURNING t.*, m.outcome AS wl_outcome, m.from_status AS wl_from, m.owner AS wl_owner, {crash_error}::text AS wl_error, m.now AS wl_now
){carried}
SELECT {id}::text FROM written
