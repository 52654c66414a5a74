-- Closes rows that wait for a try which they do not have: nothing else would ever look at them.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
lost AS MATERIALIZED (
    SELECT t.{id} AS id, t.{owner} AS owner, t.{status} AS from_status, 'exhausted' AS outcome, m.now
      FROM {table} t CROSS JOIN moment m
     WHERE t.{status} IN ({ready}) AND t.{tries} >= $2 AND ({predicate})
     LIMIT $3 FOR UPDATE OF t SKIP LOCKED
),
written AS (
    UPDATE {table} t SET {status} = {failed}, {owner} = NULL,
        {locked_until_column} = NULL{set_exhausted_error}{set_expired}
      FROM lost m
     WHERE t.{id} = m.id
    RETURNING t.*, m.outcome AS wl_outcome, m.from_status AS wl_from, m.owner AS wl_owner,
        {exhausted_error}::text AS wl_error, m.now AS wl_now
){carried}
SELECT {id}::text FROM written
