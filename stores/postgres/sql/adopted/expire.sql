-- Takes back locks that have run out and were seen, with the same end, at a moment that this process names: at least
-- one wait and at most two waits ago. For another try, or for good when there is none left. Nobody has that fence any
-- more: an end that comes later was not written by it.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
seen AS (SELECT * FROM unnest($4::text[], $5::bigint[], $6::bigint[]) AS s (id, lock_us, marked_ms)),
lost AS MATERIALIZED (
    SELECT t.{id} AS id, t.{owner} AS owner, t.{status} AS from_status, 'crashed' AS outcome,
           coalesce(t.{tries}, 0) >= $2 OR NOT ({crashes_left}) AS spent, m.now
      FROM {table} t JOIN seen s ON t.{id} = s.id::{id_type} CROSS JOIN moment m
     WHERE t.{status} IN ({open}) AND t.{status} = {running} AND ({predicate})
       AND {due} <= (SELECT now FROM moment) AND {lock_us} = s.lock_us
       AND (extract(epoch FROM m.now) * 1000)::bigint - s.marked_ms BETWEEN $3 AND 2 * $3
     ORDER BY t.{id} FOR UPDATE OF t SKIP LOCKED
),
written AS (
    UPDATE {table} t
       SET {status} = CASE WHEN m.spent THEN {failed} ELSE {retry} END, {owner} = NULL,
           {locked_until_column} = NULL{pass_fence}{set_crash_error}{set_expired}{add_crash}
      FROM lost m
     WHERE t.{id} = m.id
    RETURNING t.*, m.outcome AS wl_outcome, m.from_status AS wl_from, m.owner AS wl_owner,
        {crash_error}::text AS wl_error, m.now AS wl_now
){carried}
SELECT {id}::text FROM written
