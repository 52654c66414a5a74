-- Nobody waits for this to be durable, so it waits for no disk. Who cannot listen, behind a transaction pooler, reads
-- "news".
SELECT set_config('synchronous_commit', 'off', true), pg_notify('windlass_work', $1)::text, nextval('windlass.news')
