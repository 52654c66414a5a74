-- The rows of leases that came without a ticket, or with a wrong one. Only rows that are held are looked at.
SELECT t.{id}::text, {fence}::bigint
  FROM {table} t
 WHERE t.{status} = {running} AND {fence_is_one_of}
