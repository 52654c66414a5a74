SELECT (extract(epoch FROM min({locked_until}) - {now}) * 1000)::bigint FROM {table} t WHERE t.{status} = {running}
