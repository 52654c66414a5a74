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

CREATE TABLE windlass.jobs (
    seq              bigint PRIMARY KEY,
    id               uuid NOT NULL,
    kind             text COLLATE "C" NOT NULL,
    queue            text COLLATE "C" NOT NULL,
    payload          text NOT NULL,
    priority         smallint NOT NULL,
    key              text COLLATE "C",
    dedupe_key       text COLLATE "C",
    budgets          text[] COLLATE "C",
    retry            text,
    timeout_ms       bigint,
    meta             text,
    rank             bigint NOT NULL,
    created_ms       bigint NOT NULL,
    run_at_ms        bigint NOT NULL,
    state            smallint NOT NULL CHECK (state BETWEEN 0 AND 4),
    -- Why a queued job can or cannot be claimed: 1 ready, 2 delayed, 3 behind its key.
    lane             smallint CHECK (lane BETWEEN 1 AND 3),
    -- Jobs of one gate (queue, kind, budgets, keyed or not) are held back by the same things.
    gate             bigint NOT NULL,
    attempt          integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    crashes          integer NOT NULL DEFAULT 0,
    fence            bigint NOT NULL DEFAULT 0,
    retries          integer NOT NULL DEFAULT 0,
    started_ms       bigint,
    worker           text,
    lease_ms         bigint,
    expires_ms       bigint,
    cancel_requested boolean NOT NULL DEFAULT false,
    ended_ms         bigint,
    failure          smallint,
    result           text,
    progress         text,
    history          text,
    steps_count      integer NOT NULL DEFAULT 0,
    CHECK ((state = 0) = (lane IS NOT NULL)),
    CHECK (lane IS DISTINCT FROM 3 OR key IS NOT NULL),
    CHECK ((state = 1) = (expires_ms IS NOT NULL)),
    CHECK ((state = 1) = (lease_ms IS NOT NULL)),
    CHECK (state <> 1 OR (worker IS NOT NULL AND started_ms IS NOT NULL AND fence > 0)),
    CHECK ((state >= 2) = (ended_ms IS NOT NULL)),
    CHECK ((state = 3) = (failure IS NOT NULL))
) WITH (
    -- Room for renewals on the same page, and no waiting for dead rows to pile up.
    fillfactor = 80,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 1
);

-- A claim and a settlement each add an entry to these two; with room for them
-- on the page, nobody has to look for dead ones first.
ALTER INDEX windlass.jobs_pkey SET (fillfactor = 50);
CREATE UNIQUE INDEX jobs_id ON windlass.jobs (id) WITH (fillfactor = 50);
CREATE UNIQUE INDEX jobs_dedupe ON windlass.jobs (dedupe_key) WHERE dedupe_key IS NOT NULL AND state < 2;
CREATE INDEX jobs_ready ON windlass.jobs (gate, rank, seq) WHERE lane = 1;
CREATE INDEX jobs_delayed ON windlass.jobs (run_at_ms) WHERE lane = 2;
-- Of the jobs of one key at most one runs. While none does, the best due one of
-- each gate is ready, so that one that is held back holds back no other of its
-- key; all the others wait in lane 3, where no claim meets them.
CREATE UNIQUE INDEX jobs_key_running ON windlass.jobs (queue, key) WHERE key IS NOT NULL AND state = 1;
CREATE UNIQUE INDEX jobs_exposed ON windlass.jobs (queue, key, gate) WHERE key IS NOT NULL AND lane = 1;
CREATE INDEX jobs_waiting ON windlass.jobs (queue, key, gate, rank, seq) WHERE lane = 3;
-- The expiry is in no index, so that renewing a lease touches none. Running is
-- said by the lease here, so that "state = 1" with an id or a key is never
-- looked up by walking over all that run.
CREATE INDEX jobs_running ON windlass.jobs (queue) WHERE lease_ms IS NOT NULL;
CREATE INDEX jobs_spending ON windlass.jobs (queue) WHERE lease_ms IS NOT NULL AND budgets IS NOT NULL;
CREATE INDEX jobs_finished ON windlass.jobs (queue, ended_ms, seq) WHERE state >= 2;

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
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, key)
);

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

-- What claims gave, so that the same request gets the same leases.
CREATE TABLE windlass.claims (
    request_id uuid PRIMARY KEY,
    at_ms      bigint NOT NULL,
    seqs       bigint[] NOT NULL,
    fences     bigint[] NOT NULL
);
ALTER TABLE windlass.claims ALTER COLUMN seqs SET STORAGE EXTERNAL, ALTER COLUMN fences SET STORAGE EXTERNAL;
CREATE INDEX claims_at ON windlass.claims (at_ms);

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
CREATE VIEW windlass.jobs_1 AS
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, j.run_at_ms, j.state, j.attempt, j.crashes, j.fence,
       j.retries, j.started_ms, j.worker, j.lease_ms, j.expires_ms, j.cancel_requested, j.ended_ms,
       j.failure, j.result, j.progress, j.history, q.policy,
       CASE WHEN j.steps_count > 0 THEN
           (SELECT json_agg(json_build_array(s.name, s.output, s.attempt, s.stored_ms) ORDER BY s.ordinal)::text
              FROM windlass.steps s WHERE s.job_seq = j.seq)
       END AS steps
  FROM windlass.jobs j LEFT JOIN windlass.queues q ON q.name = j.queue;
