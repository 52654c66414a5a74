-- Whether something that is committed is behind a transaction that still runs.
-- If so, this takes a few milliseconds to say it.
SELECT CASE WHEN h.hidden THEN pg_sleep(0.003) IS NOT NULL ELSE false END
  FROM (SELECT EXISTS (SELECT FROM windlass.events e WHERE e.xid >= $1::text::xid8) AS hidden) h
