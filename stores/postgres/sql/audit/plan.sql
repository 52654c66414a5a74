SELECT set_config(u.name, 'off', true)::text FROM unnest($1::text[]) AS u(name)
