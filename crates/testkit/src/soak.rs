//! A soak: everything at once, on one store, for as long as `WINDLASS_TEST_SOAK_SECONDS` says. Two servers of the real program (one,
//! where a store is for one process) and three workers are killed with -9 or stand still at random, while a client
//! enqueues jobs with keys, limits, budgets, delays and ids that it sends again through the other server, cancels, retries and
//! deletes, and what has ended is deleted or pruned. In the end everything that was accepted is over, no lease ran twice, and
//! the audit finds nothing.

mod fleet;
mod http;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use self::fleet::Fleet;

/// How long: `WINDLASS_TEST_SOAK_SECONDS`, a minute when nothing is said.
fn seconds() -> u64 {
    let said = std::env::var("WINDLASS_TEST_SOAK_SECONDS").ok();
    said.map_or(60, |said| said.parse().expect("WINDLASS_TEST_SOAK_SECONDS is a number"))
}

/// What is enqueued: the queue, and what its script makes of a job.
const QUEUES: [&str; 3] = ["kept", "swept", "pruned"];
const SORTS: [&str; 5] = ["quick", "steps", "again", "never", "slow"];
const BUDGETS: [&str; 3] = ["few", "second", "minute"];
/// How many jobs wait at most: more say nothing more, and have to be done in the end.
const AHEAD_MAX: usize = 400;
/// How often the end is asked for, a tenth of a second apart.
const END_TRIES_MAX: u32 = 3_000;

/// A job that was accepted.
struct Accepted {
    queue: &'static str,
    deleted: bool,
}

struct Soak {
    fleet: Fleet,
    chance: Chance,
    accepted: HashMap<Uuid, Accepted>,
    ids: Vec<Uuid>,
}

/// Numbers that a seed repeats.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        // xorshift64*: good enough to choose.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// Soaks a store, with so many servers of this program.
///
/// # Panics
///
/// When something is lost, runs twice or contradicts itself, or nothing was done at all.
pub async fn soak(program: &Path, store: &str, servers: usize) {
    let said = std::env::var("WINDLASS_TEST_SOAK_SEED").ok();
    let drawn = || {
        let one = format!("{store} {}", std::process::id());
        Uuid::new_v5(&Uuid::NAMESPACE_URL, one.as_bytes()).as_u64_pair().0
    };
    let seed = said.map_or_else(drawn, |said| said.parse().expect("WINDLASS_TEST_SOAK_SEED is a number")) | 1;
    eprintln!("soak of {store}: seed {seed}");
    let fleet = Fleet::start(program, store, servers).await;
    let mut soak = Soak { fleet, chance: Chance(seed), accepted: HashMap::new(), ids: Vec::new() };
    soak.set_up().await;
    soak.torment().await;
    soak.end().await;
}

impl Soak {
    async fn set_up(&mut self) {
        let retry = json!({"lease_ms": 3000, "ladder": "100ms 200ms 400ms", "max_attempts": 1000, "crashes_max": 1000});
        for (queue, more) in [
            ("kept", json!({})),
            ("swept", json!({"delete_finished": true})),
            ("pruned", json!({"limit": 3, "finished_max": 50})),
        ] {
            let mut policy = retry.clone();
            policy.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            self.must("PUT", &format!("/v1/queues/{queue}"), &policy).await;
        }
        for (budget, policy) in [
            ("few", json!({"slots": 4})),
            ("second", json!({"per_second": 20})),
            ("minute", json!({"per_minute": 300})),
        ] {
            self.must("PUT", &format!("/v1/budgets/{budget}"), &policy).await;
        }
    }

    async fn torment(&mut self) {
        let clock = Clock::new();
        let (end_ms, mut kill_ms) = (seconds() * 1_000, 2_000);
        while clock.ms() < end_ms {
            match self.chance.below(10) {
                0..=5 => self.enqueue().await,
                6 => self.steer("cancel").await,
                7 => self.delete().await,
                8 => self.look().await,
                _ => self.rest().await,
            }
            if clock.ms() >= kill_ms {
                kill_ms = clock.ms() + 1_000 + self.chance.next() % 3_000;
                let victim = self.chance.below(self.fleet.len());
                let freeze = self.chance.one_in(4);
                self.fleet.strike(victim, freeze).await;
            }
        }
        self.fleet.thaw();
    }

    /// Enqueues some jobs, and perhaps the same once more through another server.
    async fn enqueue(&mut self) {
        let ahead = self.waiting().await;
        if ahead > AHEAD_MAX {
            return self.rest().await;
        }
        let queue = QUEUES[self.chance.below(QUEUES.len())];
        let alike = self.chance.one_in(3);
        let many = 1 + self.chance.below(if alike { 60 } else { 12 });
        let mut made = Vec::new();
        for _ in 0..many {
            let id = Uuid::from_u64_pair(
                self.chance.next() << 16 | self.chance.next() & 0xffff,
                self.chance.next(),
            );
            let mut job = json!({"id": id, "kind": "soak", "queue": queue, "payload": "quick"});
            if !alike {
                job["payload"] = SORTS[self.chance.below(SORTS.len())].into();
                job["priority"] = (self.chance.below(3) as i64 - 1).into();
                if self.chance.one_in(2) {
                    job["key"] = format!("key-{}", self.chance.below(5)).into();
                }
                if self.chance.one_in(3) {
                    job["budgets"] = json!([BUDGETS[self.chance.below(BUDGETS.len())]]);
                }
                if self.chance.one_in(3) {
                    job["delay"] = format!("{}ms", self.chance.below(2_000)).into();
                }
                if self.chance.one_in(4) {
                    // Another with this key may be there: then the answer is that one.
                    job["dedupe_key"] = format!("only-{}", self.chance.below(50)).into();
                }
            }
            made.push((id, job));
        }
        let body = json!({"jobs": made.iter().map(|(_, job)| job).collect::<Vec<_>>()});
        let answer = self.must("POST", "/v1/jobs/batch", &body).await;
        if self.chance.one_in(3) {
            self.must("POST", "/v1/jobs/batch", &body).await;
        }
        let there = answer["jobs"].as_array().expect("the jobs of a batch");
        assert_eq!(there.len(), made.len(), "{answer}");
        for job in there {
            let id: Uuid = job["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
            if made.iter().any(|(own, _)| *own == id) && !self.accepted.contains_key(&id) {
                self.accepted.insert(id, Accepted { queue, deleted: false });
                self.ids.push(id);
            }
        }
    }

    fn any(&mut self) -> Option<Uuid> {
        let newest = self.ids.len().saturating_sub(300);
        let from = &self.ids[newest..];
        (!from.is_empty()).then(|| from[self.chance.below(from.len())])
    }

    async fn steer(&mut self, verb: &str) {
        if let Some(id) = self.any() {
            self.ask("POST", &format!("/v1/jobs/{id}/{verb}"), &Value::Null).await;
        }
    }

    async fn delete(&mut self) {
        let Some(id) = self.any() else { return };
        // Whether it was deleted may not be known; then it may be gone.
        let (status, _) = self.ask("DELETE", &format!("/v1/jobs/{id}"), &Value::Null).await;
        if status == 0 || (200..300).contains(&status) || status >= 500 {
            self.accepted.get_mut(&id).expect("one of ours").deleted = true;
        }
    }

    async fn look(&mut self) {
        for path in ["/v1/jobs?limit=50", "/v1/stats", "/metrics", "/v1/queues"] {
            self.ask("GET", path, &Value::Null).await;
        }
    }

    async fn rest(&mut self) {
        pause(20 + self.chance.next() % 200).await;
    }

    async fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let server = self.chance.below(self.fleet.ports().len());
        http::call(self.fleet.ports()[server], method, path, body).await
    }

    /// Asks one server after the other until one has done it.
    async fn must(&mut self, method: &str, path: &str, body: &Value) -> Value {
        for _ in 0..600 {
            let (status, answer) = self.ask(method, path, body).await;
            match status {
                200..300 => return answer,
                400..500 if status != 429 => panic!("{method} {path}: {status} {answer}"),
                _ => pause(100).await,
            }
        }
        panic!("{method} {path}: not done in a minute");
    }

    /// How many jobs wait or run.
    async fn waiting(&mut self) -> usize {
        let (status, answer) = self.ask("GET", "/v1/queues", &Value::Null).await;
        if status != 200 {
            return usize::MAX;
        }
        let count = |queue: &Value, what: &str| queue[what].as_u64().unwrap_or(u64::MAX);
        let queues = answer["queues"].as_array().into_iter().flatten();
        let all: u64 =
            queues.map(|queue| count(queue, "depth").saturating_add(count(queue, "running"))).sum();
        usize::try_from(all).unwrap_or(usize::MAX)
    }

    /// Lets everything come to its end, and judges it.
    async fn end(mut self) {
        let mut left = usize::MAX;
        for _ in 0..END_TRIES_MAX {
            left = self.waiting().await;
            if left == 0 {
                break;
            }
            pause(100).await;
        }
        assert_eq!(left, 0, "jobs that nobody does; {}", self.fleet.words());
        let runs = self.fleet.runs();
        let mut leases = HashSet::new();
        for run in &runs {
            let id: Option<Uuid> = run.split(' ').next().and_then(|id| id.parse().ok());
            // One that is gone when its id is sent again is another job, whose fences begin anew.
            let is_kept = |job: &Accepted| job.queue == "kept" && !job.deleted;
            if id.and_then(|id| self.accepted.get(&id)).is_some_and(is_kept) {
                assert!(leases.insert(run), "a lease was run twice: {run:?}");
            }
        }
        let mut ended = 0;
        for (id, Accepted { queue, deleted }) in std::mem::take(&mut self.accepted) {
            let (status, job) = self.ask("GET", &format!("/v1/jobs/{id}"), &Value::Null).await;
            let state = job["state"].as_str().unwrap_or_default();
            match status {
                200 => {
                    assert!(["completed", "failed", "canceled"].contains(&state), "{id} is {state}: {job}")
                }
                404 => assert!(queue != "kept" || deleted, "{id} was accepted and is gone"),
                _ => panic!("{id}: {status} {job}"),
            }
            ended += 1;
        }
        let audit = self.must("GET", "/v1/audit", &Value::Null).await;
        assert_eq!(audit["findings"], json!([]), "the audit finds something");
        eprintln!("soak: {ended} jobs, {} runs, {} strikes", runs.len(), self.fleet.strikes());
        assert!(ended > 50 && runs.len() > 50, "{ended} jobs and {} runs: nothing was soaked", runs.len());
    }
}

/// Real time since it was made.
struct Clock(tokio::time::Instant);

impl Clock {
    fn new() -> Self {
        Self(tokio::time::Instant::now())
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Programs outside cannot be stepped.
async fn pause(ms: u64) {
    drop(tokio::time::timeout(Duration::from_millis(ms), std::future::pending::<()>()).await);
}
