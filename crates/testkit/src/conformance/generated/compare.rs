//! What can be seen of a store and of the book, compared.

use std::collections::HashMap;

use windlass_core::event::{Event, Position, What};
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::query::{JobFilter, ListRequest};
use windlass_core::store::BudgetStatus;
use windlass_core::time::Time;

use super::op::Op;
use super::pair::{Pair, Same, plain, same};
use crate::eventually::answered_within;

/// How often the store is asked for an event that it does not show yet.
const EVENT_TRIES: u32 = 100;

/// Of how many jobs that an operation changed all is compared; of the others what a list shows.
const CHANGED_MAX: usize = 20;

/// What the jobs were after the operation before.
#[derive(Default)]
pub struct Seen(HashMap<JobId, Job>);

impl Pair {
    /// Compares what an operation may have changed: the list, the jobs that
    /// moved, queues, budgets, records, events, and the explanation of one job in turn.
    pub async fn compare(&mut self, op: &Op, seen: &mut Seen, turn: usize) -> Same {
        self.compare_list().await?;
        let now = self.now();
        let jobs: HashMap<JobId, Job> = self.book.jobs().map(|job| (job.id, job.clone())).collect();
        let changed = jobs.iter().filter(|(id, job)| seen.0.get(id) != Some(job));
        for (id, job) in changed.take(CHANGED_MAX) {
            same("get", self.store.get(*id).await.map(|job| job.map(plain)), Ok(Some(plain(job.clone()))))?;
        }
        for id in seen.0.keys().filter(|id| !jobs.contains_key(id)).take(CHANGED_MAX) {
            same("get", self.store.get(*id).await, Ok(None))?;
        }
        seen.0 = jobs;
        same("queues", self.store.queues().await, Ok(self.book.queues(now)))?;
        let all = JobFilter::default();
        same("count", self.store.count_jobs(all.clone()).await, Ok(self.book.count(&all)))?;
        self.compare_budgets().await?;
        if !self.known.is_empty() {
            self.compare_explain(self.known[turn % self.known.len()]).await?;
        }
        if matches!(
            op,
            Op::Write { .. } | Op::WriteAgain { .. } | Op::Advance { .. } | Op::TwoLooks { .. } | Op::Prune
        ) {
            self.compare_records(false).await?;
        }
        self.compare_events().await
    }

    /// Compares everything that can be seen.
    pub async fn compare_all(&mut self) -> Same {
        self.compare_list().await?;
        for id in self.known.clone() {
            let (store, book) = (self.store.get(id).await, self.book.job(id).cloned());
            same("get", store.map(|job| job.map(plain)), Ok(book.map(plain)))?;
            self.compare_explain(id).await?;
        }
        same("queues", self.store.queues().await, Ok(self.book.queues(self.now())))?;
        self.compare_budgets().await?;
        same("schedules", self.store.schedules().await, Ok(self.book.schedules()))?;
        same("workers", self.store.workers().await, Ok(self.book.workers()))?;
        self.compare_records(true).await?;
        (self.store_events, self.book_events) = (None, None);
        self.compare_events().await
    }

    async fn compare_list(&self) -> Same {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let request = ListRequest { filter: JobFilter::default(), limit: 200, after };
            let page = self.store.list(request).await.map_err(|error| format!("list answered {error}"))?;
            listed.extend(page.jobs.into_iter().map(plain));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut expected: Vec<Job> = self.book.jobs().cloned().map(plain).collect();
        expected.reverse();
        for job in &mut expected {
            job.steps.clear();
        }
        let ids = |jobs: &[Job]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
        same("the order of the list", Ok(ids(&listed)), Ok(ids(&expected)))?;
        for (store, book) in listed.into_iter().zip(expected) {
            same("a job of the list", Ok(store), Ok(book))?;
        }
        Ok(())
    }

    async fn compare_budgets(&self) -> Same {
        let now = self.now();
        let visible =
            |all: Vec<BudgetStatus>| all.into_iter().map(|one| visible(one, now)).collect::<Vec<_>>();
        same("budgets", self.store.budgets().await.map(visible), Ok(visible(self.book.budgets(now))))
    }

    async fn compare_explain(&self, id: JobId) -> Same {
        let book = self.book.explain(id, self.now());
        same(&format!("explain of {id}"), self.store.explain(id).await, Ok(book))
    }

    async fn compare_events(&mut self) -> Same {
        let expected: Vec<Event> = self
            .book
            .events(self.book_events, u32::MAX)
            .map_err(|error| format!("the book's events: {error}"))?;
        let moves = flat(&expected);
        let (store, since) = (self.store.clone(), self.store_events);
        let ask = async || {
            let events = all_since(&store, since).await;
            (events.len() >= moves.len()).then_some(events)
        };
        let found = match answered_within(EVENT_TRIES, ask).await {
            Some(found) => found,
            None => all_since(&store, since).await,
        };
        self.book_events = expected.last().map(|event| event.position).or(self.book_events);
        self.store_events = found.last().map(|(position, _)| *position).or(since);
        let mut found: Vec<Move> = found.into_iter().map(|(_, moved)| moved).collect();
        found.sort_by_key(|moved| moved.0);
        same("events", Ok(found), Ok(moves))
    }
}

/// One move of one job; sorted by job, so that of each job the order is compared.
type Move = (JobId, What, Time, String);

fn flat(events: &[Event]) -> Vec<Move> {
    let each = |event: &Event| -> Vec<Move> {
        event.jobs.iter().map(|id| (*id, event.what, event.at, event.queue.to_string())).collect()
    };
    let mut moves: Vec<Move> = events.iter().flat_map(each).collect();
    moves.sort_by_key(|moved| moved.0);
    moves
}

async fn all_since(
    store: &std::sync::Arc<dyn windlass_core::store::Store>,
    mut since: Option<Position>,
) -> Vec<(Position, Move)> {
    let mut all = Vec::new();
    while let Ok(events) = store.events(since, 1_000).await {
        let Some(last) = events.last() else { break };
        since = Some(last.position);
        for event in &events {
            all.extend(flat(std::slice::from_ref(event)).into_iter().map(|moved| (event.position, moved)));
        }
    }
    all
}

/// A budget as an operator sees it; how its windows are kept is the store's own.
fn visible(status: BudgetStatus, now: Time) -> impl PartialEq + std::fmt::Debug {
    let BudgetStatus { budget, slots_used, used, free_at } = status;
    let cooling = budget.cooling_until.filter(|until| *until > now);
    (budget.name, budget.policy, cooling, slots_used, used, free_at)
}
