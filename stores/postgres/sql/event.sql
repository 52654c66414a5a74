-- name: act
-- To programs of the twelfth schema, which know nothing of actions, it is a "made_due" of no jobs.
INSERT INTO windlass.events (at_ms, what, queue, jobs, action) VALUES (windlass.begin_1($1), 11, $2, '{}', $3)

-- name: follow
SELECT numbered, newest, oldest, instance FROM windlass.follow_1($1, $2)

-- name: list
-- The page ends before the event with which it would have too many bytes, but has one: see core's event::fitting.
SELECT e.place, e.at_ms, e.what, e.queue, e.jobs, e.action
  FROM (SELECT e.*, row_number() OVER page AS n,
               sum($4::bigint + $5::bigint * cardinality(e.jobs) + coalesce(octet_length(e.action), 0))
                   OVER page AS bytes
          FROM (SELECT e.* FROM windlass.feed e WHERE e.place > $1 ORDER BY e.place LIMIT $2) e
        WINDOW page AS (ORDER BY e.place)) e
 WHERE e.bytes <= $3 OR e.n = 1
 ORDER BY e.n

-- name: listen
LISTEN windlass_work

-- name: news
-- Another text when somebody has enqueued, or has told of work. "job_seq" moves before an enqueue commits, "news" after
-- it. A sequence that was never asked has the value that it will give first.
SELECT concat_ws(' ', n.last_value, n.is_called, j.last_value, j.is_called) FROM windlass.news n, windlass.job_seq j

-- name: notify
-- Nobody waits for this to be durable, so it waits for no disk. Who cannot listen, behind a transaction pooler, reads
-- "news".
SELECT set_config('synchronous_commit', 'off', true), pg_notify('windlass_work', $1)::text, nextval('windlass.news')
