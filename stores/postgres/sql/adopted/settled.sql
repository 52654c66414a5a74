-- Which rows were settled like this by the same lease: the answer was lost.
SELECT t.{id}::text
  FROM {table} t JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS a (id, owner, fence, word)
    ON t.{id} = a.id::{id_type} AND t.{status} = a.word AND {same_lease}
