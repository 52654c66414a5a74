-- What the same request was given before; its leases began when they were given, not now.
SELECT t.{id}::text, {payload}::text, t.{tries}::bigint, {fence}::bigint, {crashes}::bigint, {stage}::text,
    {outputs}::text[],
       (extract(epoch FROM coalesce({locked_until}, m.now)) * 1000)::bigint - $4, ({order_text})::text
  FROM {table} t CROSS JOIN (SELECT {now} AS now) m
 WHERE t.{status} = {running} AND {request_is}
 ORDER BY {order}
