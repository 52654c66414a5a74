-- The tables of the store. All times are milliseconds since 1970, by one clock.
-- Names compare by bytes (COLLATE "C"), as they do in the program.

CREATE SEQUENCE windlass.job_seq AS bigint CACHE 1;

CREATE TABLE windlass.queues (
    name            text COLLATE "C" PRIMARY KEY,
    -- The policy as the program writes it; the columns repeat what statements need.
    policy          text NOT NULL,
    paused          boolean NOT NULL DEFAULT false,
    limit_jobs      bigint CHECK (limit_jobs > 0),
    lease_ms        bigint NOT NULL,
    ageing_ms       bigint,
    delete_finished boolean NOT NULL,
    retention_ms    bigint NOT NULL,
    finished_max    bigint NOT NULL
);

-- What a job is. Written once; only a dedupe key that is let go changes it.
CREATE TABLE windlass.jobs (
    seq         bigint PRIMARY KEY,
    id          uuid NOT NULL,
    -- Jobs of one gate (queue, kind, budgets, keyed or not) are held back by the same things.
    gate        bigint NOT NULL,
    rank        bigint NOT NULL,
    created_ms  bigint NOT NULL,
    -- When it is due for the first time.
    run_at_ms   bigint NOT NULL,
    timeout_ms  bigint,
    priority    smallint NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    dedupe_key  text COLLATE "C",
    -- The dedupe key for as long as the job is not finished.
    dedupe_held text COLLATE "C",
    budgets     text[] COLLATE "C",
    retry       text,
    meta        text,
    payload     text NOT NULL
) WITH (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE UNIQUE INDEX jobs_id ON windlass.jobs (id);
CREATE UNIQUE INDEX jobs_dedupe ON windlass.jobs (dedupe_held) WHERE dedupe_held IS NOT NULL;

-- What has become of a job. One without a row here is queued and was never
-- touched, or runs for the first time and only its claim knows of it: see
-- "claims". Only what never changes is indexed, so that a renewal and a
-- settlement write a new version of the row on its page and nothing else; where a
-- job stands in line, the narrow tables below say.
CREATE TABLE windlass.runs (
    seq              bigint PRIMARY KEY,
    fence            bigint NOT NULL,
    -- Nothing when it is still what the job says.
    run_at_ms        bigint,
    started_ms       bigint,
    lease_ms         bigint,
    expires_ms       bigint,
    ended_ms         bigint,
    attempt          integer NOT NULL,
    crashes          integer NOT NULL DEFAULT 0,
    retries          integer NOT NULL DEFAULT 0,
    steps_count      integer NOT NULL DEFAULT 0,
    state            smallint NOT NULL,
    failure          smallint,
    cancel_requested boolean NOT NULL DEFAULT false,
    -- Of the job, so that a settlement need not read it: whether it has a dedupe
    -- key, what its gate stands for, and its key. One that has ended needs neither
    -- of the last two.
    deduped          boolean NOT NULL,
    label            text COLLATE "C",
    key              text COLLATE "C",
    worker           text,
    result           text,
    progress         text,
    history          text,
    CHECK (attempt >= 0 AND CASE state
        WHEN 0 THEN lease_ms IS NULL AND expires_ms IS NULL AND ended_ms IS NULL AND failure IS NULL AND label IS NOT NULL
        WHEN 1 THEN lease_ms IS NOT NULL AND expires_ms IS NOT NULL AND worker IS NOT NULL AND label IS NOT NULL
                    AND started_ms IS NOT NULL AND fence > 0 AND ended_ms IS NULL AND failure IS NULL
        ELSE state IN (2, 3, 4) AND lease_ms IS NULL AND expires_ms IS NULL AND ended_ms IS NOT NULL
             AND (failure IS NOT NULL) = (state = 3) END)
) WITH (
    -- Room on the page for the versions that renewals write, and no waiting for
    -- dead rows to pile up.
    fillfactor = 80,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 1
);

-- Every queued job is in one of the next three tables. Whoever takes a row out
-- of one of them holds it first, and then the job.

-- Those that a claim can take, in the order of their gate. Jobs that came
-- together, are alike and have no key share a row, the first of them in its
-- columns and the others behind it: so they are written and taken by the dozen.
-- Who takes some of them writes the others again.
CREATE TABLE windlass.ready (
    gate      bigint NOT NULL,
    rank      bigint NOT NULL,
    seq       bigint NOT NULL,
    id        uuid NOT NULL,
    -- The fence of its next lease.
    fence     bigint NOT NULL,
    run_at_ms bigint NOT NULL,
    -- Whether it has a row in "runs".
    known     boolean NOT NULL,
    -- Whether it has a dedupe key.
    deduped   boolean NOT NULL,
    -- What the gate stands for; see windlass.label_1.
    label     text COLLATE "C" NOT NULL,
    key       text COLLATE "C",
    more_seqs bigint[],
    more_ids  uuid[],
    PRIMARY KEY (gate, rank, seq),
    CHECK (cardinality(more_seqs) IS NOT DISTINCT FROM cardinality(more_ids) AND (key IS NULL OR more_seqs IS NULL))
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- Of the jobs of one key at most one runs. While none does, the best due one of
-- each gate is ready, so that one that is held back holds back no other of its
-- key; all the others wait, where no claim meets them.
CREATE UNIQUE INDEX ready_keys ON windlass.ready (key, label) WHERE key IS NOT NULL;

-- Those that are not due yet.
CREATE TABLE windlass.delayed (
    run_at_ms bigint NOT NULL,
    seq       bigint NOT NULL,
    queue     text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_at_ms, seq)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);

-- Those that are behind another of their key.
CREATE TABLE windlass.waiting (
    queue     text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    gate      bigint NOT NULL,
    rank      bigint NOT NULL,
    seq       bigint NOT NULL,
    id        uuid NOT NULL,
    fence     bigint NOT NULL,
    run_at_ms bigint NOT NULL,
    known     boolean NOT NULL,
    deduped   boolean NOT NULL,
    label     text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, key, gate, rank, seq)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);

-- The finished ones that are kept, those that ended together in one row.
CREATE TABLE windlass.ended (
    queue    text COLLATE "C" NOT NULL,
    ended_ms bigint NOT NULL,
    pos      bigint GENERATED ALWAYS AS IDENTITY,
    jobs     bigint NOT NULL,
    seqs     bigint[] NOT NULL,
    PRIMARY KEY (queue, ended_ms, pos)
);
ALTER TABLE windlass.ended ALTER COLUMN seqs SET STORAGE EXTERNAL;

-- How many run: the sum over a name. Whoever starts or ends jobs adds a row, and
-- so waits for nobody; rows are added up when there are many of them.
CREATE TABLE windlass.tally (
    -- 0: jobs of a queue; 1: jobs that hold a slot of a budget.
    what  smallint NOT NULL,
    name  text COLLATE "C" NOT NULL,
    delta bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX tally_name ON windlass.tally (what, name);

CREATE TABLE windlass.steps (
    job_seq   bigint NOT NULL,
    ordinal   integer NOT NULL CHECK (ordinal BETWEEN 0 AND 999),
    name      text COLLATE "C" NOT NULL,
    output    text NOT NULL,
    attempt   integer NOT NULL,
    stored_ms bigint NOT NULL,
    PRIMARY KEY (job_seq, ordinal),
    UNIQUE (job_seq, name)
);

-- Whatever adds to a key or frees it holds the key's row, so that an enqueue
-- that saw it busy and a settlement that did not see the new job cannot both
-- leave that job waiting.
CREATE TABLE windlass.keys (
    queue  text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    -- The job of the key that runs.
    holder bigint,
    -- The gate of all jobs of the key, unless there was more than one.
    gate   bigint,
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

CREATE TABLE windlass.budgets (
    name          text COLLATE "C" PRIMARY KEY,
    slots         bigint,
    per_second    bigint,
    per_day       bigint,
    cooling_ms    bigint,
    -- Pairs of bucket and amount, oldest first.
    second_window jsonb NOT NULL DEFAULT '[]',
    day_window    jsonb NOT NULL DEFAULT '[]'
);

CREATE TABLE windlass.schedules (
    name text COLLATE "C" PRIMARY KEY,
    doc  text NOT NULL
);

CREATE TABLE windlass.workers (
    name       text COLLATE "C" PRIMARY KEY,
    queues     text[] NOT NULL,
    kinds      text[],
    slots      bigint NOT NULL,
    running    bigint NOT NULL,
    started_ms bigint NOT NULL,
    seen_ms    bigint NOT NULL
) WITH (fillfactor = 70);

-- What claims gave, by gate: so that the same request gets the same leases, and so
-- that leases that have run out are found: no lease of the row runs out before
-- due_ms, and without one none of them is held any more.
--
-- Leases of jobs that run for the first time are written here and nowhere else:
-- those of "seqs" that have no row in "runs", as long as "open" counts any. They
-- run out at due_ms. Most of them end long before anything else happens to them,
-- and then the row that says so is the only one that is written for the job.
-- Whoever wants to do something else with one of them gives it a row first
-- (windlass.unpack_1). Who holds this row holds its open leases.
CREATE TABLE windlass.claims (
    request_id uuid NOT NULL,
    part       smallint NOT NULL,
    -- Nothing when the request is forgotten.
    at_ms      bigint,
    due_ms     bigint,
    seqs       bigint[] NOT NULL,
    fences     bigint[] NOT NULL,
    open       integer NOT NULL CHECK (open >= 0),
    -- Whether none of the others can still be held.
    whole      boolean NOT NULL,
    -- Of the open ones; they lie between these numbers.
    low        bigint NOT NULL,
    high       bigint NOT NULL,
    started_ms bigint NOT NULL,
    lease_ms   bigint NOT NULL,
    worker     text NOT NULL,
    label      text COLLATE "C" NOT NULL,
    PRIMARY KEY (request_id, part),
    CHECK (open = 0 OR due_ms IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE windlass.claims ALTER COLUMN seqs SET STORAGE EXTERNAL, ALTER COLUMN fences SET STORAGE EXTERNAL;
CREATE INDEX claims_at ON windlass.claims (at_ms);
CREATE INDEX claims_due ON windlass.claims (due_ms) WHERE due_ms IS NOT NULL;

-- Ordered by transaction first: a reader never passes one that commits late.
CREATE TABLE windlass.events (
    xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
    pos   bigint GENERATED ALWAYS AS IDENTITY,
    at_ms bigint NOT NULL,
    what  smallint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    jobs  uuid[] NOT NULL,
    PRIMARY KEY (xid, pos)
);
-- Ids do not compress; trying costs more than all else that an event costs.
ALTER TABLE windlass.events ALTER COLUMN jobs SET STORAGE EXTERNAL;
CREATE INDEX events_pos ON windlass.events (pos);

-- One job with its queue's policy and its steps: the shape that the program reads.
-- "pack" is the part of the claim that holds it open.
CREATE VIEW windlass.jobs_1 AS
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms,
       coalesce(r.state, p.running, 0::smallint) AS state, coalesce(r.attempt, p.running, 0) AS attempt,
       coalesce(r.crashes, 0) AS crashes, coalesce(r.fence, p.running, 0) AS fence, coalesce(r.retries, 0) AS retries,
       coalesce(r.started_ms, p.started_ms) AS started_ms, coalesce(r.worker, p.worker) AS worker,
       coalesce(r.lease_ms, p.lease_ms) AS lease_ms, coalesce(r.expires_ms, p.due_ms) AS expires_ms,
       coalesce(r.cancel_requested, false) AS cancel_requested, r.ended_ms, r.failure, r.result,
       r.progress, r.history, q.policy,
       CASE WHEN r.steps_count > 0 THEN
           (SELECT json_agg(json_build_array(s.name, s.output, s.attempt, s.stored_ms) ORDER BY s.ordinal)::text
              FROM windlass.steps s WHERE s.job_seq = j.seq)
       END AS steps,
       p.part AS pack
  FROM windlass.jobs j
  LEFT JOIN windlass.runs r ON r.seq = j.seq
  LEFT JOIN LATERAL (
       SELECT 1::smallint AS running, c.part, c.started_ms, c.lease_ms, c.due_ms, c.worker FROM windlass.claims c
        WHERE r.seq IS NULL AND c.due_ms IS NOT NULL AND c.open > 0 AND j.seq BETWEEN c.low AND c.high AND j.seq = ANY (c.seqs)
        LIMIT 1) p ON true
  LEFT JOIN windlass.queues q ON q.name = j.queue;
