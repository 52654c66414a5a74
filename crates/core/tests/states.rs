//! `docs/states.md` is made from the functions of core, never by hand: every
//! move of `transition`, tried on a job in every state, and what came of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use windlass_core::id::{Kind, QueueName, StepName, WorkerName};
use windlass_core::job::{Job, JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::queue::{OnCrash, QueuePolicy};
use windlass_core::state::{State, StateName};
use windlass_core::step::Step;
use windlass_core::time::Time;
use windlass_core::transition::{self, Cancel, Expiry, NoRerun, Outcome, RunNow};

const NOW: Time = Time::from_ms(1_000_000);
const LEASE_MS: u32 = 30_000;

/// A move: its name, and what it does to a job: what happened, or why not.
struct Try {
    name: &'static str,
    run: fn(&mut Job) -> String,
}

fn policy(change: impl FnOnce(&mut QueuePolicy)) -> QueuePolicy {
    let mut policy = QueuePolicy { ladder: "1m".parse().expect("a ladder"), ..Default::default() };
    change(&mut policy);
    policy
}

fn settle(job: &mut Job, outcome: Outcome) -> String {
    let settled = transition::settle(job, &policy(|_| ()), job.fence.max(1), &outcome, NOW);
    match settled {
        Ok(Some(moved)) => moved.what.to_string(),
        Ok(None) => "a repeat: nothing changes".to_owned(),
        Err(_) => "lease lost".to_owned(),
    }
}

/// One look so long after the claim, by the policy of the test with a change.
fn look(job: &mut Job, after_ms: u32, change: fn(&mut QueuePolicy)) -> String {
    match transition::expire(job, &policy(change), NOW.plus_ms(i64::from(after_ms))) {
        Some(Expiry::Taken(moved)) => moved.what.to_string(),
        Some(Expiry::Marked) => "marked".to_owned(),
        None if job.lease().is_some() => "it is too early".to_owned(),
        None => "no lease".to_owned(),
    }
}

/// Both looks: in the last third, and at the end.
fn expire(job: &mut Job, change: fn(&mut QueuePolicy)) -> String {
    look(job, LEASE_MS / 3 * 2, change);
    look(job, LEASE_MS, change)
}

fn lost<T>(taken: Result<T, transition::Lost>) -> String {
    if taken.is_ok() { "taken".to_owned() } else { "lease lost".to_owned() }
}

const TRIES: [Try; 25] = [
    Try {
        name: "claim",
        run: |job| match job.state {
            State::Queued => transition::claim(job, &worker(), LEASE_MS, 0, NOW).what.to_string(),
            _ => "only a queued job is claimed".to_owned(),
        },
    },
    Try { name: "renew", run: |job| lost(transition::renew(job, job.fence.max(1), NOW)) },
    Try {
        name: "store a step",
        run: |job| lost(transition::store_step(job, job.fence.max(1), &step(), &Json::null(), NOW)),
    },
    Try { name: "progress", run: |job| lost(transition::progress(job, job.fence.max(1), &Json::null())) },
    Try { name: "settle: completed", run: |job| settle(job, Outcome::DONE) },
    Try {
        name: "settle: retry",
        run: |job| settle(job, Outcome::Retry { error: String::new(), when: None }),
    },
    Try {
        name: "settle: retry, after the last rung",
        run: |job| {
            job.attempt += 1;
            settle(job, Outcome::Retry { error: String::new(), when: None })
        },
    },
    Try { name: "settle: failed", run: |job| settle(job, Outcome::Failed { error: String::new() }) },
    Try { name: "settle: parked", run: |job| settle(job, Outcome::Parked { until: Start::AfterMs(5) }) },
    Try { name: "settle: released", run: |job| settle(job, Outcome::Released) },
    Try { name: "settle: canceled", run: |job| settle(job, Outcome::Canceled) },
    Try {
        name: "renew, after the lease's end",
        run: |job| lost(transition::renew(job, job.fence.max(1), NOW.plus_ms(2 * i64::from(LEASE_MS)))),
    },
    Try { name: "a look before the last third", run: |job| look(job, LEASE_MS / 3 * 2 - 1, |_| ()) },
    Try { name: "a look in the last third", run: |job| look(job, LEASE_MS / 3 * 2, |_| ()) },
    Try { name: "a first look after the lease's end", run: |job| look(job, 2 * LEASE_MS, |_| ()) },
    Try {
        name: "a second look, too long after the first",
        run: |job| {
            look(job, LEASE_MS / 3 * 2, |_| ());
            look(job, LEASE_MS / 3 * 4 + 1, |_| ())
        },
    },
    Try { name: "the lease runs out", run: |job| expire(job, |_| ()) },
    Try {
        name: "the lease runs out, and a crash is the end",
        run: |job| expire(job, |policy| policy.on_crash = OnCrash::Fail),
    },
    Try {
        name: "the lease runs out once too often",
        run: |job| expire(job, |policy| policy.crashes_max = 1),
    },
    Try {
        name: "cancel",
        run: |job| match transition::cancel(job, &policy(|_| ()), NOW) {
            Cancel::Canceled(moved) | Cancel::Requested(moved) => moved.what.to_string(),
            Cancel::AlreadyRequested => "asked before".to_owned(),
            Cancel::Final => "it is over".to_owned(),
        },
    },
    Try {
        name: "retry",
        run: |job| match transition::retry(job, NOW) {
            Some(moved) => moved.what.to_string(),
            None => "it is not over".to_owned(),
        },
    },
    Try {
        name: "run again from a step",
        run: |job| {
            job.steps = vec![Step { name: step(), output: Json::null(), attempt: 1, stored_at: NOW }];
            match transition::rerun(job, &step(), NOW) {
                Ok(moved) => moved.what.to_string(),
                Err(NoRerun::NotFinal) => "it is not over".to_owned(),
                Err(NoRerun::NoStep) => "it has no such step".to_owned(),
            }
        },
    },
    Try {
        name: "run now, before its time",
        run: |job| {
            job.run_at = NOW.plus_ms(1);
            match transition::run_now(job, NOW) {
                RunNow::Due(moved) => moved.what.to_string(),
                RunNow::AlreadyDue => "it is due".to_owned(),
                RunNow::Running => "it is running".to_owned(),
                RunNow::Final => "it is over".to_owned(),
            }
        },
    },
    Try {
        name: "delete",
        run: |job| match transition::delete(job, NOW) {
            Some(moved) => format!("{}, and out of the store", moved.what),
            None => "it is running".to_owned(),
        },
    },
    Try {
        name: "the program starts anew, and its jobs do not survive that",
        run: |job| match transition::end_by_restart(job, &policy(|_| ()), NOW) {
            Some(moved) => moved.what.to_string(),
            None => "it is over".to_owned(),
        },
    },
];

fn worker() -> WorkerName {
    WorkerName::new("w").expect("a name")
}

fn step() -> StepName {
    StepName::new("s").expect("a name")
}

/// A job in each state, and a running one that is asked to cancel; the final
/// ones ended in a life before this fence.
fn jobs() -> Vec<(String, Job)> {
    let spec = JobSpec::new(Kind::new("k").expect("a kind"), QueueName::default(), Json::null());
    let id = windlass_core::id::JobId(uuid::Uuid::from_u128(1));
    let queued = transition::accept(NewJob { id, spec, start: Start::Now }, 0, &policy(|_| ()), NOW);
    let mut running = queued.clone();
    transition::claim(&mut running, &worker(), LEASE_MS, 0, NOW);
    let mut canceling = running.clone();
    transition::cancel(&mut canceling, &policy(|_| ()), NOW);
    let ended = |outcome: Outcome| {
        let mut job = running.clone();
        transition::settle(&mut job, &policy(|_| ()), 1, &outcome, NOW).expect("a held lease");
        // Another claim since: what is asked below is no repeat.
        job.fence += 1;
        job
    };
    vec![
        ("queued".to_owned(), queued),
        ("running".to_owned(), running.clone()),
        ("running, asked to cancel".to_owned(), canceling),
        ("completed".to_owned(), ended(Outcome::DONE)),
        ("failed".to_owned(), ended(Outcome::Failed { error: String::new() })),
        ("canceled".to_owned(), ended(Outcome::Canceled)),
    ]
}

fn table() -> String {
    let mut text = String::from(
        "# The states of a job\n\n\
         Made from `windlass_core::transition` by a test; change the code, then run\n\
         `WINDLASS_BLESS=1 cargo test -p windlass-core --test states`.\n\n\
         A job is `queued`, `running`, `completed`, `failed` or `canceled`; the last three are final,\n\
         and only an explicit retry leaves them. A job that waits for its time, its key or a budget is\n\
         `queued`: why it waits is computed, never stored. A lease that ran out counts until the job was\n\
         taken back, which takes two looks: `the lease runs out` means both of them.\n\n\
         | from | what is asked | to | what is recorded, or why nothing changes |\n\
         |---|---|---|---|\n",
    );
    for (from, job) in jobs() {
        for Try { name, run } in TRIES {
            let mut moved = job.clone();
            let said = run(&mut moved);
            let to = match (&moved.state, moved.state == job.state) {
                (_, true) => "(stays)".to_owned(),
                (State::Failed { reason, .. }, _) => format!("failed ({reason})"),
                (State::Running(lease), _) if lease.cancel_requested && !from.contains("cancel") => {
                    "running, asked to cancel".to_owned()
                }
                (State::Running(_), _) if job.lease().is_some() => "(stays)".to_owned(),
                (state, _) => state.name().to_string(),
            };
            writeln!(text, "| {from} | {name} | {to} | {said} |").expect("a string takes all");
        }
    }
    text
}

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md")
}

#[test]
fn the_document_is_what_core_does() {
    let (made, path) = (table(), document());
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &made).expect("docs/states.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == made,
        "docs/states.md is not what core does; look at the difference, then run \
         WINDLASS_BLESS=1 cargo test -p windlass-core --test states"
    );
}

/// No move but a retry leaves a final state, and every state has a way out.
#[test]
fn final_states_are_left_by_a_retry_alone() {
    let mut left: BTreeSet<StateName> = BTreeSet::new();
    for (from, job) in jobs() {
        for Try { name, run } in TRIES {
            let mut moved = job.clone();
            run(&mut moved);
            if moved.state.name() != job.state.name() {
                left.insert(job.state.name());
                let retries = ["retry", "run again from a step"].contains(&name);
                assert!(!job.state.name().is_final() || retries, "{name} leaves {from}");
            }
        }
    }
    assert_eq!(left.len(), StateName::ALL.len());
}
