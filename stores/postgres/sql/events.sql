-- The page ends before the event with which it would have too many bytes, but has one: see core's event::fitting.
SELECT e.xid, e.pos, e.at_ms, e.what, e.queue, e.jobs
  FROM (SELECT e.xid::text, e.pos, e.at_ms, e.what, e.queue, e.jobs,
               sum($6::bigint + $7::bigint * cardinality(e.jobs)) OVER page AS bytes, row_number() OVER page AS n
          FROM (SELECT e.* FROM windlass.events e
                 WHERE (e.xid, e.pos) > ($1::text::xid8, $2)
                   AND e.xid < $4::text::xid8
                 ORDER BY e.xid, e.pos
                 LIMIT $3) e
        WINDOW page AS (ORDER BY e.xid, e.pos)) e
 WHERE e.bytes <= $5 OR e.n = 1
 ORDER BY e.n
