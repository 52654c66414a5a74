"""Who takes part, and how each is set up. A new peer is a folder and an entry here."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contestant:
    name: str
    folder: str
    language: str  # rust, node or python
    server: str  # postgres, sqlite, redis or mongo
    settings: str
    # Counts the jobs that are finished and still to be found, in the server's language; nothing where they are deleted.
    finished: str = ""
    # Whether counting them is cheap enough to be done until all are settled.
    watched: bool = True
    # Counts the jobs that are not finished, where finished ones are deleted.
    left: str = ""
    options: dict = field(default_factory=dict)
    # "windlass", "limit" or "peer": what the ratios are made of.
    role: str = "peer"
    # How many jobs a batch has.
    batch: int = 1_000
    # Takes part in the long measures: a million jobs, millions of finished ones.
    large: bool = False
    # Makes one finished job many, for the store that is full of them: {copies}.
    multiply: str = ""


WINDLASS_PG_MULTIPLY = """
    WITH copies AS MATERIALIZED (
        SELECT nextval('windlass.job_seq') AS new, gen_random_uuid() AS new_id, j.*, r.fence, r.attempt, r.started_ms,
               r.ended_ms, r.label, r.worker
          FROM windlass.jobs j JOIN windlass.runs r ON r.seq = j.seq, generate_series(1, {copies}) WHERE r.state = 2
    ), jobs AS (
        INSERT INTO windlass.jobs (seq, id, gate, rank, created_ms, run_at_ms, priority, kind, queue, payload)
        SELECT new, new_id, gate, rank, created_ms, run_at_ms, priority, kind, queue, payload FROM copies
    ), runs AS (
        INSERT INTO windlass.runs (seq, fence, run_at_ms, started_ms, ended_ms, attempt, state, deduped, label, worker)
        SELECT new, fence, run_at_ms, started_ms, ended_ms, attempt, 2, false, label, worker FROM copies
    )
    INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs)
    SELECT queue, ended_ms, count(*), array_agg(new) FROM copies GROUP BY queue, ended_ms, new / 1000"""

# Ids that grow, as those of a client do; the counters and the lists as the store itself would keep them.
WINDLASS_SQLITE_MULTIPLY = """
    CREATE TEMP TABLE copies AS
    WITH RECURSIVE copy (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM copy WHERE number < {copies}),
                   base (next_seq, most) AS (SELECT next_seq, (SELECT count(*) FROM jobs) FROM head)
    SELECT jobs.seq AS old, next_seq + (number - 1) * most + jobs.seq AS new, (number - 1) * most + jobs.seq AS id
      FROM copy, base, jobs JOIN past ON past.seq = jobs.seq WHERE state = 2 ORDER BY number, jobs.seq;
    INSERT INTO jobs (seq, id, gate, rank, run_at_ms, created_ms, priority, kind, queue, payload)
    SELECT new, CAST(printf('%016d', copies.id) AS BLOB), gate, rank, run_at_ms, created_ms, priority, kind, queue,
           payload FROM copies CROSS JOIN jobs ON jobs.seq = old;
    INSERT INTO past SELECT new, state, fence, attempt, started_ms, ended_ms, reason, worker, result
      FROM copies CROSS JOIN past ON past.seq = old;
    INSERT INTO ended SELECT queue, ended_ms, -1 - new / 1000, json_group_array(new)
      FROM copies CROSS JOIN jobs ON jobs.seq = new CROSS JOIN past ON past.seq = new
     GROUP BY queue, ended_ms, new / 1000;
    UPDATE tallies SET finished = (SELECT count(*) FROM past WHERE state >= 2) WHERE sort = 0;
    UPDATE head SET next_seq = (SELECT max(seq) + 1 FROM jobs);
    DROP TABLE copies;"""

AGENDA_FINISHED = 'agendaJobs {"lastFinishedAt": {"$type": "date"}}'

CONTESTANTS = [
    Contestant("windlass", "windlass", "rust", "postgres",
               "Worker with 2,000 slots; everything else as it comes",
               "SELECT coalesce(sum(jobs), 0)::bigint FROM windlass.ended",
               role="windlass", large=True, multiply=WINDLASS_PG_MULTIPLY),
    Contestant("limit", "limit", "rust", "postgres",
               "hand-written SQL, claims of 1,000 over two connections, unnest for batches",
               "SELECT count(*) FROM jobs WHERE state = 2", role="limit", large=True,
               multiply="INSERT INTO jobs (state, payload) SELECT state, payload FROM jobs, "
                        "generate_series(1, {copies}) WHERE state = 2"),
    Contestant("limit-copy", "limit", "rust", "postgres", "the same with COPY for batches, one connection",
               "SELECT count(*) FROM jobs WHERE state = 2", options={"insert": "copy", "lanes": "1"}, role="limit"),
    Contestant("graphile-worker", "graphile-worker", "node", "postgres",
               "localQueue 500, 24 at once, completeJobBatchDelay 0; without localQueue for pickup; "
               "deletes finished jobs", left="SELECT count(*) FROM graphile_worker._private_jobs"),
    Contestant("graphile-worker-rs", "graphile-worker-rs", "rust", "postgres",
               "local queue of 1,000, 200 at once, completions grouped for 1 ms; without local queue for pickup; "
               "deletes finished jobs", left="SELECT count(*) FROM graphile_worker._private_jobs"),
    Contestant("pg-boss", "pg-boss", "node", "postgres",
               "batchSize 1,000, burstWhenBatchFull, LISTEN/NOTIFY",
               "SELECT count(*) FROM pgboss.job WHERE state = 'completed'"),
    Contestant("river", "river", "rust", "postgres",
               "its client for Rust, 2,000 workers, fetch cool-down 1 ms, poll 100 ms",
               "SELECT count(*) FROM river_job WHERE state = 'completed'"),
    Contestant("awa", "awa", "rust", "postgres", "two claimers, claims of 500, 1,000 workers, COPY for batches",
               "SELECT count(*) FROM awa.jobs WHERE state = 'completed'", watched=False),
    Contestant("apalis-postgres", "apalis-postgres", "rust", "postgres",
               "batches of 1,000, NOTIFY and a poll of 100 ms, lock_tasks off, tasks spawned",
               "SELECT count(*) FROM apalis.jobs WHERE status = 'Done'"),
    Contestant("underway", "underway", "rust", "postgres", "16 at once, NOTIFY and a poll of 5 ms",
               "SELECT count(*) FROM underway.task WHERE state = 'succeeded'"),
    Contestant("fang", "fang", "rust", "postgres",
               "16 async workers, KeepAll, sleeps of 5 ms; no call for batches: 16 inserts at a time",
               "SELECT count(*) FROM fang_tasks WHERE state = 'finished'"),
    Contestant("procrastinate", "procrastinate", "python", "postgres", "async, 30 at once, NOTIFY",
               "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"),
    Contestant("dbos", "dbos", "python", "postgres",
               "a queue polled every 10 ms; batches are 1,000 enqueues in one transaction",
               "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"),
    Contestant("bullmq", "bullmq", "node", "redis", "Redis with appendfsync always; 100 at once",
               "ZCARD bull:bench:completed"),
    Contestant("windlass-sqlite", "windlass", "rust", "sqlite",
               "synchronous = FULL; Worker with 2,000 slots", "SELECT count(*) FROM past WHERE state = 2",
               # Counted by the store itself: to count millions of rows while it drains would be a load of our own.
               watched=False, left="SELECT coalesce(sum(queued + running), 0) FROM tallies WHERE sort = 0",
               role="windlass", large=True, multiply=WINDLASS_SQLITE_MULTIPLY),
    Contestant("limit-sqlite", "limit", "rust", "sqlite", "hand-written SQL, synchronous = FULL, claims of 1,000",
               "SELECT count(*) FROM jobs WHERE state = 2", role="limit", large=True,
               multiply="INSERT INTO jobs (state, payload) SELECT state, payload FROM jobs, "
                        "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {copies}) "
                        "SELECT i FROM n) WHERE state = 2"),
    Contestant("river-sqlite", "river", "rust", "sqlite",
               "synchronous = FULL; 2,000 workers, fetch cool-down 1 ms, poll 5 ms",
               "SELECT count(*) FROM river_job WHERE state = 'completed'", options={"poll_ms": "5"}),
    Contestant("apalis-sqlite", "apalis-sqlite", "rust", "sqlite",
               "synchronous = FULL (its own setup turns it off); batches of 1,000, poll 10 ms",
               "SELECT count(*) FROM Jobs WHERE status = 'Done'"),
    Contestant("apalis-sqlite-off", "apalis-sqlite", "rust", "sqlite",
               "as documented: its setup says synchronous = OFF, so an answer survives no power cut",
               "SELECT count(*) FROM Jobs WHERE status = 'Done'", options={"durability": "off"}),
    # What is finished is in the store's own memory, and is counted by nobody else.
    Contestant("windlass-mongo", "windlass-mongo", "rust", "mongo", "batches of 100, 8 at once; Worker with 100 slots",
               batch=100, options={"at_once": 8}, role="windlass"),
    Contestant("windlass-rows", "windlass-mongo", "rust", "mongo",
               "a worker with 100 slots on Agenda's own collection", AGENDA_FINISHED, batch=100,
               options={"source": "rows"}, role="adopted"),
    *[Contestant(f"agenda-{version}", "agenda", "node", "mongo",
                 "one by one, 50 at once, looking every 100 ms", AGENDA_FINISHED, batch=100,
                 options={"agenda": version}) for version in ("4", "5", "hokify", "6")],
]


def by_name(name):
    for contestant in CONTESTANTS:
        if contestant.name == name:
            return contestant
    raise SystemExit(f"bench: there is no contestant {name!r}; there are: "
                     + ", ".join(one.name for one in CONTESTANTS))
