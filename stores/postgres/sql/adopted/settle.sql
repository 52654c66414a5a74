-- Ends attempts on rows that this worker holds, with all that is carried. Where only
-- the owner tells one claim from another, a row that is over keeps it, so that a
-- repeated settlement is known; where there is a fence, nobody is left as its owner. How often
-- a row was tried, and with that whether it is tried again and when, the row says.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
asked AS (
    SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
        $9::bool[])
        AS a (id, fence, outcome, word, error, after_ms, at_ms, give_back)
),
held AS MATERIALIZED (
    SELECT t.{id} AS id, t.{status} AS from_status, t.{owner} AS owner, a.fence, a.error, a.give_back, m.now,
           CASE WHEN {is_spent} THEN 'failed' ELSE a.outcome END AS outcome,
           CASE WHEN {is_spent} THEN {failed} ELSE a.word END AS word,
           CASE WHEN {is_spent} THEN NULL
                WHEN a.at_ms IS NOT NULL THEN to_timestamp(a.at_ms / 1000.0)
                WHEN a.outcome = 'retry' THEN m.now + coalesce(a.after_ms, {retry_ms}) * interval '1 millisecond'
                ELSE m.now + a.after_ms * interval '1 millisecond' END AS next_at
      FROM {table} t JOIN asked a ON t.{id} = a.id::{id_type} CROSS JOIN moment m
     WHERE t.{status} = {running} AND {is_held}
     ORDER BY t.{id} FOR UPDATE OF t
),
written AS (
    UPDATE {table} t
       SET {status} = m.word, {locked_until_column} = NULL,
           {owner} = {owner_after},
           {next_attempt_column} = CASE WHEN m.next_at IS NULL THEN t.{next_attempt_column} ELSE {next_at} END,
           {tries} = CASE WHEN m.give_back THEN greatest({tries_before} - 1, 0) ELSE t.{tries} END{set_settled}
      FROM held m
     WHERE t.{id} = m.id
    RETURNING t.*, m.outcome AS wl_outcome, m.from_status AS wl_from, m.owner AS wl_owner, m.error AS wl_error,
        m.now AS wl_now, m.fence AS wl_fence
){carried}
SELECT {id}::text, wl_fence FROM written
