SELECT pg_advisory_xact_lock(7593264152037148)::text
