-- The page ends before the event with which it would have too many bytes, but has one: see core's event::fitting.
SELECT e.place, e.at_ms, e.what, e.queue, e.jobs, e.action
  FROM (SELECT e.*, row_number() OVER page AS n,
               sum($4::bigint + $5::bigint * cardinality(e.jobs) + coalesce(octet_length(e.action), 0))
                   OVER page AS bytes
          FROM (SELECT e.* FROM windlass.feed e WHERE e.place > $1 ORDER BY e.place LIMIT $2) e
        WINDOW page AS (ORDER BY e.place)) e
 WHERE e.bytes <= $3 OR e.n = 1
 ORDER BY e.n
