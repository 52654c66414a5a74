SELECT pg_notify('windlass_work', $1)::text
