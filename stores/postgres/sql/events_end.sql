SELECT e.xid::text, e.pos FROM windlass.events e
 WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot())
 ORDER BY e.xid DESC, e.pos DESC LIMIT 1
