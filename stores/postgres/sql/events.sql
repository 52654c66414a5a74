SELECT e.xid::text, e.pos, e.at_ms, e.what, e.queue, e.jobs
  FROM windlass.events e
 WHERE (e.xid, e.pos) > ($1::text::xid8, $2)
   AND e.xid < $4::text::xid8
 ORDER BY e.xid, e.pos
 LIMIT $3
