-- When the next lock comes near its end. The sweep comes round every few seconds anyway, so that it is enough to look
-- at some of the rows where there are very many.
SELECT (extract(epoch FROM min({locked_until}) - {now}) * 1000)::bigint - $2
  FROM (SELECT * FROM {table} t WHERE t.{status} = {running} LIMIT 256) t
 WHERE {locked_until} > {now} + $2::bigint * interval '1 millisecond'
