//! An adopted table beside the book: generated sequences are done to both, by either of two processes, and what they answer and
//! what the rows say is compared. The book's queue has the policy of the mapping. What a table cannot do (dedupe keys, cancels from
//! outside, deletion) has no operation here, and where the two part by design this file says so.
//!
//! `WINDLASS_PROPTEST_CASES` and `WINDLASS_PROPTEST_SEED` mean what they mean for the contract's sequences.

use std::fmt::Debug;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::id::{JobId, QueueName, WorkerName};
use windlass_core::job::{Job, JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::State;
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement, Source, StepWrite, Written};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::adopted::mapping::Mapping;
use windlass_testkit::conformance::generator;

use crate::adopted::{Tours, mapping};

/// How many sequences are tried unless the environment says otherwise.
const CASES: u32 = 60;

/// What is done. Leases are named by their place among all that were ever given, so that many are stale.
#[derive(Debug, Clone)]
enum Op {
    Add,
    Claim {
        limit: u32,
    },
    /// The newest claim but so many once more, as if its answer had been lost.
    ClaimAgain(usize),
    Renew(Vec<usize>),
    Step {
        lease: usize,
        plan: bool,
    },
    Settle(Vec<(usize, End)>),
    SettleAgain(usize),
    Expire,
    TwoLooks {
        first_ms: u64,
        second_ms: u64,
    },
    Advance(u64),
}

#[derive(Debug, Clone, Copy)]
enum End {
    Done,
    Retry,
    RetryIn(u64),
    Failed,
    Park(u64),
    Release,
}

impl End {
    fn outcome(self) -> Outcome {
        match self {
            Self::Done => Outcome::DONE,
            Self::Retry => Outcome::Retry { error: "no".to_owned(), when: None },
            Self::RetryIn(ms) => Outcome::Retry { error: "no".to_owned(), when: Some(Start::AfterMs(ms)) },
            Self::Failed => Outcome::Failed { error: "never".to_owned() },
            Self::Park(ms) => Outcome::Parked { until: Start::AfterMs(ms) },
            Self::Release => Outcome::Released,
        }
    }
}

/// By which process, with or without the ticket, what.
type Turn = (bool, bool, Op);

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let lease = || 0usize..6;
    let end = prop_oneof![
        2 => Just(End::Done),
        3 => Just(End::Retry),
        1 => (0u64..90_000).prop_map(End::RetryIn),
        1 => Just(End::Failed),
        1 => (0u64..90_000).prop_map(End::Park),
        2 => Just(End::Release),
    ];
    let op = prop_oneof![
        4 => Just(Op::Add),
        6 => (1u32..4).prop_map(|limit| Op::Claim { limit }),
        1 => (0usize..3).prop_map(Op::ClaimAgain),
        3 => vec(lease(), 1..4).prop_map(Op::Renew),
        4 => (lease(), any::<bool>()).prop_map(|(lease, plan)| Op::Step { lease, plan }),
        6 => vec((lease(), end), 1..4).prop_map(Op::Settle),
        2 => (0usize..3).prop_map(Op::SettleAgain),
        2 => Just(Op::Expire),
        4 => (prop_oneof![Just(20_000u64), Just(31_000), Just(5_000)], prop_oneof![Just(10_000u64), Just(9_999), Just(20_001)])
            .prop_map(|(first_ms, second_ms)| Op::TwoLooks { first_ms, second_ms }),
        4 => prop_oneof![Just(1u64), Just(10_000), Just(29_999), Just(60_000), Just(300_000)].prop_map(Op::Advance),
    ];
    vec((any::<bool>(), prop::bool::weighted(0.7), op), 1..40)
}

/// A lease as the table gave it, and as the book did.
#[derive(Debug, Clone, Copy)]
struct Grant {
    row: i32,
    far: LeaseRef,
    near: LeaseRef,
}

/// A table, and two processes that work it.
struct Stage {
    tours: Tours,
    tables: [Arc<AdoptedTable>; 2],
    requests: u128,
}

struct Twins<'a> {
    tours: &'a Tours,
    tables: &'a [Arc<AdoptedTable>; 2],
    requests: &'a mut u128,
    book: Book,
    rows: i32,
    grants: Vec<Grant>,
    claims: Vec<(usize, ClaimRequest)>,
    ends: Vec<Vec<(Grant, Outcome)>>,
    fence_column: bool,
}

type Same = Result<(), String>;

fn same<T: PartialEq + Debug>(what: &str, table: T, book: T) -> Same {
    if table == book {
        Ok(())
    } else {
        Err(format!("{what} differs\n  the table: {table:?}\n  the book:  {book:?}"))
    }
}

fn queue() -> QueueName {
    "q".parse().expect("a queue")
}

/// The book's name of a row.
fn id_of(row: i32) -> JobId {
    JobId(Uuid::from_u128(row as u128))
}

fn row_of(job: &Job) -> i32 {
    let payload: serde_json::Value = job.spec.payload.read().expect("a payload");
    payload["id"].as_str().and_then(|id| id[1..].parse().ok()).expect("the id of a row")
}

impl<'a> Twins<'a> {
    async fn new(Stage { tours, tables, requests }: &'a mut Stage, of: &Mapping) -> Self {
        tours.scene.client.batch_execute("TRUNCATE tours").await.expect("an empty table");
        // What was marked there is forgotten.
        tables[0].expire().await.expect("a look");
        let mut book = Book::new();
        let policy = QueuePolicy {
            ladder: of.ladder.clone(),
            max_attempts: Some(of.tries_max),
            lease_ms: of.lease_ms,
            // Without a column crashes are not counted, only tries.
            crashes_max: if of.crashes.is_some() { of.crashes_max } else { 1_000 },
            ..QueuePolicy::default()
        };
        book.put_queue(queue(), policy, tours.clock.wall()).expect("a policy");
        let fence_column = of.fence.is_some();
        Self {
            tours,
            tables,
            requests,
            book,
            rows: 0,
            grants: vec![],
            claims: vec![],
            ends: vec![],
            fence_column,
        }
    }

    /// The newest grant but so many.
    fn grant(&self, back: usize) -> Option<Grant> {
        let back = back.checked_rem(self.grants.len())?;
        self.grants.get(self.grants.len() - 1 - back).copied()
    }

    async fn apply(&mut self, by: usize, ticket: bool, op: &Op) -> Same {
        let now = self.tours.clock.wall();
        let hint = |lease: LeaseRef| if ticket { lease } else { LeaseRef::new(lease.job_id, lease.fence) };
        match op {
            Op::Add => {
                self.rows += 1;
                self.tours.add(self.rows, "READY").await;
                let spec = JobSpec::new("tour".parse().expect("a kind"), queue(), Json::null());
                let job = NewJob { id: id_of(self.rows), spec, start: Start::Now };
                self.book.enqueue(vec![job], now).map(drop).map_err(|error| error.to_string())
            }
            Op::Claim { limit } => {
                *self.requests += 1;
                let request = ClaimRequest {
                    request_id: Uuid::from_u128(*self.requests),
                    worker: WorkerName::new(["u", "v"][by]).expect("a name"),
                    queues: vec![queue()],
                    kinds: None,
                    limit: *limit,
                    lease_ms: None,
                };
                self.claims.push((by, request.clone()));
                self.claim(by, request).await
            }
            Op::ClaimAgain(back) => {
                let Some(back) = back.checked_rem(self.claims.len()) else { return Ok(()) };
                // Only the process that asked knows that it asks again.
                let (by, request) = self.claims[self.claims.len() - 1 - back].clone();
                let held = self.book.clone().claim(&request, now).map_err(|error| error.to_string())?;
                // What nobody holds any more is claimed anew by a table, which keeps no requests; a store gives nothing.
                if held.leases.is_empty() { Ok(()) } else { self.claim(by, request).await }
            }
            Op::Renew(leases) => {
                let grants: Vec<Grant> = leases.iter().filter_map(|back| self.grant(*back)).collect();
                let table = self.tables[by].renew(grants.iter().map(|grant| hint(grant.far)).collect()).await;
                let table = table.map_err(|error| error.to_string())?;
                let near: Vec<LeaseRef> = grants.iter().map(|grant| grant.near).collect();
                let book = self.book.renew(&near, now);
                let far_id =
                    |id: &JobId| grants.iter().find(|one| one.near.job_id == *id).map(|one| one.far.job_id);
                let ids = |ids: &[JobId]| ids.iter().filter_map(far_id).collect::<Vec<_>>();
                same("renew", (table.renewed, table.lost), (ids(&book.renewed), ids(&book.lost)))
            }
            Op::Step { lease, plan } => {
                let Some(grant) = self.grant(*lease) else { return Ok(()) };
                // The stages of a table come in its order.
                let fetched = self.book.job(id_of(grant.row)).is_some_and(|job| !job.steps.is_empty());
                let name = if *plan && fetched { "plan" } else { "fetch" };
                let write =
                    |lease| StepWrite { lease, name: name.parse().expect("a step"), output: Json::null() };
                let table = self.tables[by].store_steps(vec![write(hint(grant.far))]).await;
                let table = table.map_err(|error| error.to_string())?;
                same("store_steps", table, self.book.store_steps(&[write(grant.near)], now))
            }
            Op::Settle(ends) => {
                let mut batch: Vec<(Grant, Outcome)> = Vec::new();
                for (back, end) in ends {
                    let grant =
                        self.grant(*back).filter(|grant| batch.iter().all(|(one, _)| one.row != grant.row));
                    batch.extend(grant.map(|grant| (grant, end.outcome())));
                }
                self.ends.push(batch.clone());
                self.settle(by, batch, hint).await
            }
            Op::SettleAgain(back) => {
                let Some(back) = back.checked_rem(self.ends.len()) else { return Ok(()) };
                self.settle(by, self.ends[self.ends.len() - 1 - back].clone(), hint).await
            }
            Op::Expire => self.expire().await,
            Op::TwoLooks { first_ms, second_ms } => {
                self.tours.clock.advance(*first_ms);
                self.expire().await?;
                self.tours.clock.advance(*second_ms);
                self.expire().await
            }
            Op::Advance(ms) => {
                self.tours.clock.advance(*ms);
                Ok(())
            }
        }
    }

    async fn claim(&mut self, by: usize, request: ClaimRequest) -> Same {
        let book = self.book.claim(&request, self.tours.clock.wall()).map_err(|error| error.to_string())?;
        let table = self.tables[by].claim(request).await.map_err(|error| error.to_string())?;
        let shown = |job: &Job, row: i32| {
            let steps: Vec<String> = job.steps.iter().map(|step| step.name.to_string()).collect();
            let crashes = if self.fence_column { job.crashes } else { 0 };
            (row, job.attempt, crashes, steps, job.lease().map(|lease| lease.expires_at))
        };
        let far: Vec<_> =
            table.leases.iter().map(|one| (shown(&one.job, row_of(&one.job)), one.retry_delay_ms)).collect();
        let rows = |job: &Job| job.id.0.as_u128() as i32;
        let near: Vec<_> =
            book.leases.iter().map(|one| (shown(&one.job, rows(&one.job)), one.retry_delay_ms)).collect();
        same("claim", far, near)?;
        for (far, near) in table.leases.iter().zip(&book.leases) {
            let grant = Grant { row: row_of(&far.job), far: far.lease_ref(), near: near.lease_ref() };
            let before = self.grants.iter().rfind(|before| before.row == grant.row);
            if let Some(before) = before
                && (grant.far.fence > before.far.fence) != (grant.near.fence > before.near.fence)
            {
                return Err(format!("fences of row {}: {before:?}, then {grant:?}", grant.row));
            }
            self.grants.push(grant);
        }
        Ok(())
    }

    async fn settle(
        &mut self,
        by: usize,
        mut batch: Vec<(Grant, Outcome)>,
        hint: impl Fn(LeaseRef) -> LeaseRef,
    ) -> Same {
        // A row that waits for its next try has forgotten who gave it back, where a store still knows: only of a last word is
        // known whose it was. And whose ticket is lost, his row is looked for among those that are held.
        batch.retain(|(grant, _)| {
            let job = self.book.job(id_of(grant.row)).expect("a job for each row");
            let known = hint(grant.far).ticket.is_some() && !matches!(job.state, State::Queued);
            known || job.fence != grant.near.fence || matches!(job.state, State::Running(_))
        });
        let end = |lease: LeaseRef, outcome: &Outcome| Settlement { lease, outcome: outcome.clone() };
        let near: Vec<_> = batch.iter().map(|(grant, outcome)| end(grant.near, outcome)).collect();
        let far = batch.iter().map(|(grant, outcome)| end(hint(grant.far), outcome)).collect();
        let book: Vec<Written> = self.book.settle(&near, self.tours.clock.wall());
        same("settle", self.tables[by].settle(far).await.map_err(|error| error.to_string())?, book)
    }

    /// Marks are kept by the process that looks: the first does.
    async fn expire(&mut self) -> Same {
        let book = self.book.expire(self.tours.clock.wall());
        let table = self.tables[0].expire().await.map_err(|error| error.to_string())?;
        same("expire", (table.jobs.len(), table.marked), (book.jobs.len(), book.marked))
    }

    /// What the rows say, and what the book says.
    async fn compare(&self) -> Same {
        let now_ms = self.tours.clock.wall().ms();
        let sql = "SELECT created, status, coalesce(tries, 0), coalesce(crashes, 0), stage,
                          (extract(epoch FROM next_attempt_at) * 1000)::bigint,
                          (extract(epoch FROM locked_until) * 1000)::bigint FROM tours ORDER BY created";
        let rows = self.tours.scene.client.query(sql, &[]).await.expect("the rows");
        for row in rows {
            let (number, word): (i32, String) = (row.get(0), row.get(1));
            let job = self.book.job(id_of(number)).ok_or("a row without a job")?;
            let word = if word == "READY" || word == "RETRY" { "queued" } else { word.as_str() };
            let (next, locked): (Option<i64>, Option<i64>) = (row.get(5), row.get(6));
            let due = (word == "queued").then(|| next.unwrap_or(0).max(now_ms));
            let crashes = if self.fence_column { row.get::<_, i32>(3) as u32 } else { 0 };
            let table =
                (word, row.get::<_, i32>(2) as u32, crashes, row.get::<_, Option<&str>>(4), due, locked);
            let word = match &job.state {
                State::Queued => "queued",
                State::Running(_) => "RUNNING",
                State::Completed { .. } => "DONE",
                State::Failed { .. } | State::Canceled { .. } => "FAILED",
            };
            let stage = match job.steps.len() {
                0 => None,
                1 => Some("FETCHED"),
                _ => Some("PLANNED"),
            };
            let due = (word == "queued").then(|| job.run_at.ms().max(now_ms));
            let crashes = if self.fence_column { job.crashes } else { 0 };
            let locked = job.lease().map(|lease| lease.expires_at.ms());
            same(&format!("row {number}"), table, (word, job.attempt, crashes, stage, due, locked))?;
        }
        Ok(())
    }
}

async fn play(stage: &mut Stage, of: &Mapping, plan: &[Turn]) -> Same {
    let mut twins = Twins::new(stage, of).await;
    for (at, (second, ticket, op)) in plan.iter().enumerate() {
        // Without a column only time tells two fences of a row apart.
        if !twins.fence_column {
            twins.tours.clock.advance(1);
        }
        let step = async {
            twins.apply(usize::from(*second), *ticket, op).await?;
            twins.compare().await
        };
        step.await.map_err(|why| format!("at operation {}: {why}", at + 1))?;
    }
    Ok(())
}

async fn matches_the_book(of: Mapping) {
    let tours = Tours::new("timestamptz").await;
    tours.scene.client.batch_execute("ALTER TABLE tours ADD request text").await.expect("a column");
    let tables = [tours.open_as(of.clone()).await, tours.open_as(of.clone()).await];
    let stage = Mutex::new(Stage { tours, tables, requests: 0 });
    let (mut runner, seed) = generator(CASES);
    let handle = Handle::current();
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&turns(), |plan| {
            let case = handle.block_on(async { play(&mut *stage.lock().await, &of, &plan).await });
            case.map_err(TestCaseError::fail)
        })
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, plan)) => {
            let lines: Vec<String> =
                plan.iter().enumerate().map(|(at, turn)| format!("{:>3}. {turn:?}", at + 1)).collect();
            panic!(
                "a table and the book part:\n{why}\nafter\n{}\nfound by WINDLASS_PROPTEST_SEED={seed}",
                lines.join("\n")
            )
        }
        Err(TestError::Abort(why)) => panic!("no sequences were made: {why}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_sequences_match_the_book_with_a_fence_column() {
    matches_the_book(Mapping { predicate: None, request: Some("request".into()), ..mapping(true) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_sequences_match_the_book_without_a_fence_column() {
    matches_the_book(Mapping { predicate: None, ..mapping(false) }).await;
}
