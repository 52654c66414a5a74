-- Whether the row was settled like this by the same lease: the answer was lost.
SELECT 1 FROM {table} t
 WHERE t.{id} = $1::text::{id_type} AND t.{status} = $2 AND t.{owner} = $3 AND {fence_is}
