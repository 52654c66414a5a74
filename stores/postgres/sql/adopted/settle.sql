-- Ends attempts on rows that this worker holds, with all that is carried. Where only
-- the owner tells one claim from another, a row that is over keeps it, so that a
-- repeated settlement is known; where there is a fence, nobody is left as its owner.
WITH moment AS MATERIALIZED (SELECT {now} AS now),
asked AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[],
        $9::bigint[], $10::bool[])
        AS a (id, owner, fence, outcome, word, error, after_ms, at_ms, give_back)
),
held AS MATERIALIZED (
    SELECT t.{id} AS id, t.{status} AS from_status, a.owner, a.outcome, a.word, a.error, a.give_back,
           coalesce(to_timestamp(a.at_ms / 1000.0), m.now + a.after_ms * interval '1 millisecond') AS next_at, m.now
      FROM {table} t JOIN asked a ON t.{id} = a.id::{id_type} CROSS JOIN moment m
     WHERE t.{status} = {running} AND t.{owner} = a.owner AND {fence_is}
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
        m.now AS wl_now
){carried}
SELECT {id}::text FROM written
