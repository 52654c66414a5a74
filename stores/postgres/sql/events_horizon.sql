-- Up to where events may be read: below every transaction that still runs in
-- this database. Those of other databases of the server cannot write events of
-- ours; whatever is not known to be one of them holds the reader back. The
-- events are read by a later statement, which sees all that ended before this one.
WITH now AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot),
elsewhere AS MATERIALIZED (
    SELECT l.transactionid::text::bigint AS low FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
       AND a.datid <> (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
SELECT coalesce(
           (SELECT x.xid FROM now CROSS JOIN pg_snapshot_xip(now.snapshot) AS x(xid)
             WHERE (x.xid::text::numeric % 4294967296)::bigint NOT IN (SELECT e.low FROM elsewhere e)
             ORDER BY x.xid LIMIT 1),
           (SELECT pg_snapshot_xmax(now.snapshot) FROM now))::text
