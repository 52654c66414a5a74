SELECT (extract(epoch FROM coalesce(to_timestamp($1::bigint / 1000.0), clock_timestamp())) * 1000)::bigint
