-- The epoch, until when it holds back jobs of this queue, and until when those of any queue that has ready
-- jobs, a policy or had long leases.
SELECT e.number, e.instance, e.floor, e.began_ms, e.first_seq, e.lossy, windlass.pause_until_1(e, $1),
       CASE WHEN e.lossy AND $2 < e.began_ms + e.pause_max_ms THEN
           (SELECT max(p.until) FROM (SELECT DISTINCT split_part(r.label, chr(31), 1) AS queue FROM windlass.ready r
                                      UNION SELECT q.name FROM windlass.queues q UNION SELECT l.queue FROM windlass.longest l) q
             CROSS JOIN windlass.pause_until_1(e, q.queue) AS p(until) WHERE p.until > $2) END
  FROM windlass.epoch e
