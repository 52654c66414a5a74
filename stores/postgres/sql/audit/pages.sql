SELECT pg_relation_size(('windlass.' || u.name)::regclass) / current_setting('block_size')::bigint
  FROM unnest($1::text[]) WITH ORDINALITY AS u(name, n) ORDER BY u.n
