-- Whoever is under way ends first, and whoever comes waits at the epoch, which every call reads first: so that nobody who
-- holds something of one table waits here for another.
LOCK TABLE windlass.epoch;

-- Budgets have a bound per minute: windlass_core::policy::budget. Programs of the twelfth schema that are running go on: their
-- claims spend by the functions of this one, and what they set of a budget leaves its minute alone.
ALTER TABLE windlass.budgets
    ADD COLUMN per_minute    bigint,
    ADD COLUMN minute_window jsonb NOT NULL DEFAULT '[]',
    -- How often the windows were written by who knows all of them.
    ADD COLUMN writes        bigint NOT NULL DEFAULT 0;

-- What they spend by hand they write themselves, and know nothing of minutes: of a budget that has a bound per minute it is
-- refused to them, so that the bound holds.
CREATE FUNCTION windlass.refuse_spend_1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the budget has a bound per minute, which this program does not know: use a newer one'
          USING ERRCODE = 'WL006';
END $$;
CREATE TRIGGER spent_without_minutes BEFORE UPDATE OF second_window, day_window ON windlass.budgets FOR EACH ROW
    WHEN (old.per_minute IS NOT NULL AND new.writes = old.writes)
    EXECUTE FUNCTION windlass.refuse_spend_1();

-- Workers say what they work with and where. Programs of the twelfth schema say neither.
ALTER TABLE windlass.workers ADD COLUMN version text, ADD COLUMN host text;

-- What operators did is told among the events, as JSON: windlass_core::event::Action.
ALTER TABLE windlass.events ADD COLUMN action text;
ALTER TABLE windlass.feed ADD COLUMN action text;

-- Queued jobs are counted as running ones are (tally of what 0), and the oldest of a queue is found by an index, so that how
-- queues stand costs the same whatever is stored. What programs of the twelfth schema read of "tally" is as it was.
ALTER TABLE windlass.tally ADD COLUMN queued bigint NOT NULL DEFAULT 0;
INSERT INTO windlass.tally (what, name, delta, queued)
SELECT 0, c.queue, 0, sum(c.queued) FROM (
    SELECT split_part(r.label, chr(31), 1) AS queue, 1 + coalesce(cardinality(r.more_seqs), 0) AS queued FROM windlass.ready r
    UNION ALL SELECT w.queue, 1 FROM windlass.waiting w
    UNION ALL SELECT d.queue, 1 FROM windlass.delayed d) c
 GROUP BY c.queue;
CREATE INDEX ready_due ON windlass.ready (split_part(label, chr(31), 1), run_at_ms);
CREATE INDEX waiting_due ON windlass.waiting (queue, run_at_ms);

-- A call of theirs that waits for this commit goes on with what it has read of its function before, and does not count: once
-- all of those have ended, it is made good by windlass.recount_1.
CREATE TABLE windlass.recount (
    due_ms bigint PRIMARY KEY
);
INSERT INTO windlass.recount (due_ms) VALUES ((extract(epoch FROM clock_timestamp()) * 1000)::bigint + 600000);

-- Rows of "tally" are added up name by name, by one in 64 of those who write them, so that there are never many of a name.
-- Nobody waits for it: what another holds is left alone. A snapshot that is kept could find rows that are gone since.
CREATE FUNCTION windlass.fold_name_1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT t.ctid AS spot FROM windlass.tally t WHERE t.what = new.what AND t.name = new.name
         LIMIT 1000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM windlass.tally t USING mine m WHERE t.ctid = m.spot RETURNING t.delta, t.queued
    )
    INSERT INTO windlass.tally (what, name, delta, queued)
    SELECT new.what, new.name, sum(g.delta), sum(g.queued) FROM gone g
    HAVING sum(g.delta) <> 0 OR sum(g.queued) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER tally_fold AFTER INSERT ON windlass.tally FOR EACH ROW
    WHEN (random() < 0.015625 AND current_setting('transaction_isolation') = 'read committed')
    EXECUTE FUNCTION windlass.fold_name_1();

-- A job that core has moved, as windlass.save_1 hands it on: what it is, what it was, and what it is to be.
CREATE TYPE windlass.moved AS (
    seq        bigint,
    id         uuid,
    queue      text COLLATE "C",
    key        text COLLATE "C",
    dedupe_key text COLLATE "C",
    budgets    text[] COLLATE "C",
    room       bigint,
    gate       bigint,
    rank       bigint,
    label      text COLLATE "C",
    was        smallint,
    was_due    bigint,
    was_ended  bigint,
    state      smallint,
    run_at_ms  bigint,
    fence      bigint,
    ended_ms   bigint,
    doomed     boolean
);

-- What a claim may take from, gate by gate (an entry of each array), as windlass.claim_2 hands it on.
CREATE TYPE windlass.gates AS (
    rooms    bigint[],
    gates    bigint[],
    labels   text[] COLLATE "C",
    -- How many jobs a row of the gate seems to have.
    sizes    bigint[],
    queues   text[] COLLATE "C",
    -- The names of its budgets, joined.
    budgets  text[] COLLATE "C",
    lease_ms bigint[],
    policies text[],
    keyed    boolean[],
    -- Of all gates: those of their queues that have a limit, whether any has budgets, whether any has keys, and whether a
    -- key may have ready jobs in more than one.
    limited  text[] COLLATE "C",
    spends   boolean,
    keys     boolean,
    crossed  boolean
);

-- What a claim has taken, job by job, and when; "ats" is of each job which gate.
CREATE TYPE windlass.taken AS (
    now_ms   bigint,
    seqs     bigint[],
    ranks    bigint[],
    ats      bigint[],
    ids      uuid[],
    fences   bigint[],
    -- Whether one of them ran before; whether one has a row of its own.
    known    boolean,
    apart    boolean,
    -- The rows of those with keys, which are held and still there.
    spots    tid[],
    -- The budgets that the claim is bound by.
    spending text[] COLLATE "C"
);

-- Of the functions of the twelfth schema, lock_places_1, unready_1 and fold_many_1 are called by nobody any more but calls that are
-- under way: the schema after this one takes them away.

-- What programs of the tenth and eleventh schemas called or left, and nobody else does.
DROP TABLE windlass.longest;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure FROM pg_proc p
         WHERE p.pronamespace = 'windlass'::regnamespace
           AND (p.proname = ANY ('{claim_1,complete_1,complete_open_1,there_1,seed_1,is_new_1,gate_1,next_expiry_1,run_out_1}')
                OR p.proname = 'promote_1' AND p.pronargs = 2)
    LOOP
        EXECUTE format('DROP FUNCTION %s', f);
    END LOOP;
END $$;

-- Counts what is told, for those who cannot listen: a transaction pooler gives them no session. Read by sql/news.sql.
CREATE SEQUENCE windlass.news AS bigint CACHE 1;
