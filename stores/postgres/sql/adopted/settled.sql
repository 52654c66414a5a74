-- Which rows were settled like this by the same lease: the answer was lost.
SELECT t.{id}::text, a.fence
  FROM {table} t JOIN unnest($1::text[], $2::bigint[], $3::text[]) AS a (id, fence, word)
    ON t.{id} = a.id::{id_type} AND t.{status} = a.word AND {same_lease}
