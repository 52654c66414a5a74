-- Stores the outputs of one step for rows that this worker holds, with all that
-- is carried. The stage never goes back: a row that lacked the proof of an
-- earlier step keeps the later ones.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
asked AS (SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[]) AS a (id, fence, output)),
held AS MATERIALIZED (
    SELECT t.{id} AS id, {stage} AS from_stage, a.fence, a.output, m.now
      FROM {table} t JOIN asked a ON t.{id} = a.id::{id_type} CROSS JOIN moment m
     WHERE t.{status} = {running} AND {is_held}
     ORDER BY t.{id} FOR UPDATE OF t
),
written AS (
    UPDATE {table} t SET {set}
      FROM held m
     WHERE t.{id} = m.id
    RETURNING t.*, m.from_stage AS wl_from, m.output::jsonb AS wl_output, m.now AS wl_now,
        m.fence AS wl_fence
){carried}
SELECT {id}::text, wl_fence FROM written
