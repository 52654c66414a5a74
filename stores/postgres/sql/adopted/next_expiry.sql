-- When the next lock runs out. The sweep comes round every few seconds anyway, so that it is enough to look at
-- some of the rows where there are very many.
SELECT (extract(epoch FROM min({locked_until}) - {now}) * 1000)::bigint
  FROM (SELECT * FROM {table} t WHERE t.{status} = {running} LIMIT 256) t
