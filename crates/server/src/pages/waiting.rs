//! What queued jobs wait for, counted by the claim's own predicates.

use std::collections::BTreeMap;

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::eligible::{Explanation, Hold};
use windlass_engine::core::id::{JobId, Kind};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;

use super::bits::{bar, encoded, number, short_id};
use super::empty;
use super::frame::{Sheet, Watch, answer};
use crate::answer::{Answered, Refusal};
use crate::api::Api;
use crate::ask::Ask;

const TICK_SECONDS: u32 = 5;
/// An answer is given again for this long: it asks the store once for each job, and a page asks again whenever
/// something happens to any.
pub(crate) const WAITING_MS: u64 = 1_000;

/// What queued jobs wait for.
pub(crate) struct Waiting {
    /// How many are queued, and how many of these were looked at.
    queued: u64,
    looked: u64,
    groups: BTreeMap<(u8, String), Group>,
}

/// Queued jobs, split for the eye.
pub(super) struct Split {
    /// They may start.
    pub due: u64,
    /// Their time has not come.
    pub later: u64,
    /// Their next attempt has not come.
    pub retrying: u64,
    /// Something else holds them.
    pub blocked: u64,
    /// Not all were looked at.
    pub partly: bool,
}

impl Waiting {
    /// How many wait for what, in four words.
    pub(super) fn split(&self) -> Split {
        let mut split =
            Split { due: 0, later: 0, retrying: 0, blocked: 0, partly: self.looked < self.queued };
        for ((rank, _), group) in &self.groups {
            let part = match *rank {
                WORKER | SLOT => &mut split.due,
                LADDER => &mut split.retrying,
                TIME => &mut split.later,
                _ => &mut split.blocked,
            };
            *part += group.count;
        }
        split
    }
}

/// Why a job waits, as a number: for a worker, a slot of one, its next attempt, its time; all others are held back.
const WORKER: u8 = 0;
const SLOT: u8 = 1;
const LADDER: u8 = 8;
const TIME: u8 = 9;

/// Jobs that wait for the same.
struct Group {
    count: u64,
    /// One of them.
    job: JobId,
    kind: Kind,
}

/// `GET /waiting`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let waiting = ask.api.waiting.get(&*ask.api.world, look(&ask.api)).await?;
    let Waiting { queued, looked, groups } = &*waiting;
    let body = html! {
        h1 { "Waiting, by reason" }
        @if groups.is_empty() {
            (empty::none("No job waits", "A job that is queued is here with what holds it back:", "windlass explain"))
        } @else {
            p.quiet {
                @if looked < queued { "The newest " (number(*looked)) " of " (number(*queued)) " queued jobs were looked at." }
                @else { "All " (number(*looked)) " queued jobs were looked at." }
            }
            (table(groups, *looked))
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(&ask, StatusCode::OK, Sheet { title: "Waiting".to_owned(), place: "/jobs", watch, now, body }))
}

/// Looks at the newest queued jobs.
pub(super) async fn look(api: &Api) -> Result<Waiting, Refusal> {
    let queued = api.store.queues().await?.iter().map(|queue| queue.queued).sum();
    let filter = JobFilter { states: vec![StateName::Queued], ..JobFilter::default() };
    let jobs = api.store.list(ListRequest { filter, limit: PAGE_MAX, after: None }).await?.jobs;
    let looked = jobs.len() as u64;
    let mut groups: BTreeMap<(u8, String), Group> = BTreeMap::new();
    for job in jobs {
        // One that has started meanwhile waits no more.
        let Some(reason) = api.store.explain(job.id).await?.and_then(|found| reason(&found, &job)) else {
            continue;
        };
        let one = Group { count: 1, job: job.id, kind: job.spec.kind };
        groups.entry(reason).and_modify(|group| group.count += 1).or_insert(one);
    }
    Ok(Waiting { queued, looked, groups })
}

fn table(groups: &BTreeMap<(u8, String), Group>, looked: u64) -> Markup {
    let mut groups: Vec<(&(u8, String), &Group)> = groups.iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    html! {
        table.rows {
            thead { tr { th.num { "jobs" } th.wide { span.hidden { "share" } } th { "wait" } th.w { "kind" } th { "one of them" } } }
            tbody {
                @for ((_, reason), group) in groups {
                    tr data-row {
                        td.num { (number(group.count)) }
                        td.wide { (bar(group.count, looked)) }
                        td.text { (reason) }
                        td.text.w { a href={ "/jobs?state=queued&kind=" (encoded(group.kind.as_str())) } { (group.kind) } }
                        td { a.open.id href={ "/jobs/" (group.job) } { (short_id(&group.job.to_string())) } }
                    }
                }
            }
        }
    }
}

/// What a job waits for first, in words that are the same for all that wait for it.
fn reason(explanation: &Explanation, job: &Job) -> Option<(u8, String)> {
    Some(match explanation {
        Explanation::Final { .. } | Explanation::Running { .. } => return None,
        Explanation::Ready { workers: 0, .. } => {
            let (kind, queue) = (&job.spec.kind, &job.spec.queue);
            (
                WORKER,
                format!(
                    "for a worker: none that is alive knows the kind {kind} and claims from the queue {queue}"
                ),
            )
        }
        Explanation::Ready { .. } => {
            (SLOT, format!("for a free slot of the workers of the queue {}", job.spec.queue))
        }
        Explanation::Held { holds } => held(holds.first()?, job),
    })
}

fn held(hold: &Hold, job: &Job) -> (u8, String) {
    let queue = &job.spec.queue;
    match hold {
        Hold::QueuePaused => (2, format!("for the queue {queue}, which is paused")),
        Hold::EpochPause { .. } => {
            (10, "for leases to end that may have been given by what the store has lost".to_owned())
        }
        Hold::QueueFull { limit } => {
            (3, format!("for the queue {queue}, which runs {limit} at once and is full"))
        }
        Hold::KeyBusy { key, .. } => (4, format!("for the key {key}, which another job has")),
        Hold::BudgetCooling { budget, .. } => (5, format!("for the budget {budget}, which cools down")),
        Hold::BudgetSlots { budget, .. } => (6, format!("for a slot of the budget {budget}")),
        Hold::BudgetSpent { budget, .. } => (7, format!("for the budget {budget}, which is spent")),
        Hold::NotDue { .. } if job.attempt > 0 => {
            (LADDER, "for their next attempt, by their ladder".to_owned())
        }
        Hold::NotDue { .. } => (TIME, "for their time".to_owned()),
    }
}
