-- name: begin
SELECT windlass.begin_1($1)

-- name: configure
SELECT windlass.configure_1($1, $2, $3)

-- name: load
-- The epoch, until when it holds back jobs of this queue, and until when those of any queue that has ready
-- jobs or a pause of its own.
SELECT e.number, e.instance, e.floor, e.began_ms, e.first_seq, e.lossy, windlass.pause_until_1(e, $1),
       CASE WHEN e.lossy AND $2 < e.began_ms + e.pause_max_ms THEN
           (SELECT max(p.until) FROM (SELECT DISTINCT split_part(r.label, chr(31), 1) AS queue FROM windlass.ready r
                                      UNION SELECT p.queue FROM windlass.pauses p) q
             CROSS JOIN windlass.pause_until_1(e, q.queue) AS p(until) WHERE p.until > $2) END
  FROM windlass.epoch e
