-- A store has an epoch, and its events are numbered: windlass_core::epoch.

-- Functions are made anew with each version of the schema.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace LOOP
        EXECUTE 'DROP FUNCTION ' || f.name;
    END LOOP;
END $$;
DROP VIEW windlass.jobs_1;

-- The epoch that the store is in, and the settings that decide what follows from the next. One row.
CREATE TABLE windlass.epoch (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    number       bigint NOT NULL CHECK (number > 0),
    instance     uuid NOT NULL,
    floor        bigint NOT NULL CHECK (floor >= 0),
    began_ms     bigint NOT NULL,
    -- Jobs with a lower number were accepted before it.
    first_seq    bigint NOT NULL,
    -- Whether commits of before may be lost.
    lossy        boolean NOT NULL,
    -- The history that this is the epoch of, windlass.history_1, and the start of the server.
    history      text NOT NULL,
    started      timestamptz NOT NULL,
    -- Settings: a promotion loses nothing; the longest that an epoch holds back anything.
    synchronous  boolean NOT NULL DEFAULT false,
    pause_max_ms bigint NOT NULL DEFAULT 900000
) WITH (fillfactor = 50);

-- The longest leases that were claimed from queues which say shorter ones.
CREATE TABLE windlass.longest (
    queue    text COLLATE "C" PRIMARY KEY,
    lease_ms bigint NOT NULL,
    at_ms    bigint NOT NULL
);

-- The fence of the open leases of a claim: all of them are the first of their jobs.
ALTER TABLE windlass.claims ADD COLUMN fence bigint NOT NULL DEFAULT 1 CHECK (fence > 0);

-- Events as they are written, in no order that anybody could follow: one that is written first may be committed last. Who
-- follows them moves them to "feed", where they are numbered without gaps: windlass.follow_1.
ALTER TABLE windlass.events DROP CONSTRAINT events_pkey;
ALTER TABLE windlass.events DROP COLUMN xid;
DROP INDEX windlass.events_pos;
ALTER TABLE windlass.events ADD PRIMARY KEY (pos);
ALTER TABLE windlass.events SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
CREATE TABLE windlass.feed (
    place bigint PRIMARY KEY,
    at_ms bigint NOT NULL,
    what  smallint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    jobs  uuid[] NOT NULL
);
ALTER TABLE windlass.feed ALTER COLUMN jobs SET STORAGE EXTERNAL;
-- The newest number that was given. Whoever numbers events holds this row.
CREATE TABLE windlass.feed_end (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    place bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO windlass.feed_end (place) VALUES (0);

-- One job with its queue's policy and its steps: the shape that the program reads.
-- "pack" is the part of the claim that holds it open.
CREATE VIEW windlass.jobs_1 AS
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms,
       coalesce(r.state, p.running, 0::smallint) AS state, coalesce(r.attempt, p.running, 0) AS attempt,
       coalesce(r.crashes, 0) AS crashes, coalesce(r.fence, p.fence, 0) AS fence, coalesce(r.retries, 0) AS retries,
       coalesce(r.started_ms, p.started_ms) AS started_ms, coalesce(r.worker, p.worker) AS worker,
       coalesce(r.lease_ms, p.lease_ms) AS lease_ms, coalesce(r.expires_ms, p.due_ms) AS expires_ms,
       coalesce(r.cancel_requested, false) AS cancel_requested, r.marked_ms, r.ended_ms, r.failure, r.result,
       r.progress, r.history, q.policy,
       CASE WHEN r.steps_count > 0 THEN
           (SELECT json_agg(json_build_array(s.name, s.output, s.attempt, s.stored_ms) ORDER BY s.ordinal)::text
              FROM windlass.steps s WHERE s.job_seq = j.seq)
       END AS steps,
       p.number AS pack
  FROM windlass.jobs j
  LEFT JOIN windlass.runs r ON r.seq = j.seq
  LEFT JOIN LATERAL (
       SELECT 1::smallint AS running, c.number, c.fence, c.started_ms, c.lease_ms, c.due_ms, c.worker FROM windlass.claims c
        WHERE r.seq IS NULL AND c.due_ms IS NOT NULL AND c.open > 0
          AND int8range(c.low, c.high, '[]') @> j.seq AND j.seq = ANY (c.seqs)
        LIMIT 1) p ON true
  LEFT JOIN windlass.queues q ON q.name = j.queue;

-- When a schedule is due next, so that no other is looked at; of those that are there, the first look finds out.
ALTER TABLE windlass.schedules ADD COLUMN next_ms bigint NOT NULL DEFAULT 0;
CREATE INDEX schedules_next ON windlass.schedules (next_ms);
