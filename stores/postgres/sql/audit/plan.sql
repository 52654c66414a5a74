SELECT set_config(name, 'off', true)::text
  FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_bitmapscan', 'enable_material', 'jit'])
       AS u(name)
