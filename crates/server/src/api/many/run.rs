//! A run over many jobs, in the background of this server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::query::PAGE_MAX;
use windlass_engine::core::store::{CancelAnswer, DeleteAnswer, RetryAnswer, RunNowAnswer, STEER_MAX};
use windlass_engine::core::time::Time;
use windlass_report::schema::{Id, Moment};
use windlass_report::search::{self, Wanted};

use crate::answer::Refusal;
use crate::api::Api;

/// How many runs go on at once.
const RUNS_MAX: usize = 4;
/// How often a run acts in a second, when its pace allows more than one job each time.
const BITES_PER_SECOND: usize = 20;
/// How many runs are remembered.
const REMEMBERED_MAX: usize = 50;

/// What is done to each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Retry,
    Cancel,
    Run,
    Delete,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Run => "run",
            Self::Delete => "delete",
        }
    }

    /// Does it, in one commit; answers to how many, the others refused.
    async fn act(self, api: &Api, ids: Vec<JobId>) -> Result<u64, StoreError> {
        let done = match self {
            Self::Retry => {
                let answers = api.store.retry_all(ids).await?;
                answers.iter().filter(|answer| **answer == RetryAnswer::Retried).count()
            }
            Self::Cancel => {
                let answers = api.store.cancel_all(ids).await?;
                let did = |answer: &&CancelAnswer| {
                    matches!(answer, CancelAnswer::Canceled | CancelAnswer::Requested)
                };
                answers.iter().filter(did).count()
            }
            Self::Run => {
                let answers = api.store.run_now_all(ids).await?;
                answers.iter().filter(|answer| **answer == RunNowAnswer::Due).count()
            }
            Self::Delete => {
                let answers = api.store.delete_with_logs(ids).await?;
                answers.iter().filter(|answer| **answer == DeleteAnswer::Deleted).count()
            }
        };
        Ok(done as u64)
    }
}

/// The runs of this server, newest last.
#[derive(Default)]
pub(crate) struct Runs(Mutex<VecDeque<Arc<Run>>>);

pub(super) struct Run {
    id: Uuid,
    verb: Verb,
    pace: u32,
    started_at: Time,
    ended_ms: AtomicU64,
    looked_at: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
    stopped: AtomicBool,
    failed: AtomicBool,
}

/// A run as it stands.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunView {
    #[schemars(with = "Id")]
    pub id: Uuid,
    /// `retry`, `cancel`, `run` or `delete`.
    pub does: &'static str,
    /// `running`, `done`, `stopped`, or `failed`: the store could not go on.
    pub state: &'static str,
    pub pace: u32,
    #[schemars(with = "Moment")]
    started_at: Time,
    looked_at: u64,
    /// Jobs that it was done to.
    pub done: u64,
    /// Jobs that were no longer in a state for it, or whose dedupe key another job has.
    pub refused: u64,
}

/// Goes through the jobs from the newest to the oldest. Jobs that fail again
/// meanwhile keep their place, so each is retried once.
pub(super) async fn go(api: Arc<Api>, run: Arc<Run>, wanted: Wanted) {
    if let Err(error) = act_on_all(&api, &run, &wanted).await {
        tracing::warn!(run = %run.id, code = error.code(), %error, "a run over many ended early");
        run.failed.store(true, Ordering::Relaxed);
    }
    run.ended_ms.store(api.world.boot_ms().max(1), Ordering::Relaxed);
    tracing::info!(run = %run.id, done = run.done.load(Ordering::Relaxed), "a run over many ended");
}

async fn act_on_all(api: &Api, run: &Run, wanted: &Wanted) -> Result<(), StoreError> {
    let began_ms = api.world.boot_ms();
    let mut found = VecDeque::new();
    let mut after = None;
    loop {
        if run.is_to_stop(api) {
            return Ok(());
        }
        let page = search::page(&*api.store, wanted, PAGE_MAX, after).await?;
        found.extend(page.jobs.iter().map(|job| job.id));
        after = page.next;
        // Pages are smaller than what one commit may have: they are gathered.
        while found.len() >= run.bite() || (after.is_none() && !found.is_empty()) {
            if run.is_to_stop(api) {
                return Ok(());
            }
            let bite = found.drain(..run.bite().min(found.len())).collect();
            run.act(api, began_ms, bite).await?;
        }
        if after.is_none() {
            return Ok(());
        }
    }
}

impl Runs {
    /// All of them as they stand, newest first.
    pub(crate) fn views(&self) -> Vec<RunView> {
        self.lock().iter().rev().map(|run| run.view()).collect()
    }

    pub(super) fn add(&self, run: Arc<Run>) -> Result<(), Refusal> {
        let mut runs = self.lock();
        if runs.iter().filter(|run| run.is_going()).count() >= RUNS_MAX {
            let message = format!("{RUNS_MAX} such runs are going on; wait for one to end, or stop one");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", message).retry_after(10));
        }
        while runs.len() >= REMEMBERED_MAX {
            let Some(oldest) = runs.iter().position(|run| !run.is_going()) else { break };
            runs.remove(oldest);
        }
        runs.push_back(run);
        Ok(())
    }

    pub(super) fn find(&self, id: JobId) -> Result<Arc<Run>, Refusal> {
        let found = self.lock().iter().find(|run| run.id == id.0).cloned();
        found.ok_or_else(|| Refusal::not_found("run; runs are forgotten when the server restarts"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Run>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    pub(super) fn new(id: Uuid, verb: Verb, pace: u32, started_at: Time) -> Self {
        Self {
            id,
            verb,
            pace,
            started_at,
            ended_ms: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            done: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// How many jobs share a commit: those of a twentieth of a second, within what one call may have.
    fn bite(&self) -> usize {
        (self.pace as usize / BITES_PER_SECOND).clamp(1, STEER_MAX)
    }

    /// Does it to a bite, once its time has come.
    async fn act(&self, api: &Api, began_ms: u64, bite: Vec<JobId>) -> Result<(), StoreError> {
        let jobs = bite.len() as u64;
        let before = self.looked_at.fetch_add(jobs, Ordering::Relaxed);
        let due_ms = began_ms + before * 1_000 / u64::from(self.pace);
        let early_ms = due_ms.saturating_sub(api.world.boot_ms());
        if early_ms > 0 {
            api.world.sleep_ms(early_ms).await;
        }
        let done = self.verb.act(api, bite).await?;
        self.done.fetch_add(done, Ordering::Relaxed);
        self.refused.fetch_add(jobs - done, Ordering::Relaxed);
        Ok(())
    }

    /// Whether somebody stopped it, or the server is stopping, which is the same to it.
    fn is_to_stop(&self, api: &Api) -> bool {
        if *api.stop.borrow() {
            self.stop();
        }
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_going(&self) -> bool {
        self.ended_ms.load(Ordering::Relaxed) == 0
    }

    pub(super) fn view(&self) -> RunView {
        let state = if self.is_going() {
            "running"
        } else if self.failed.load(Ordering::Relaxed) {
            "failed"
        } else if self.stopped.load(Ordering::Relaxed) {
            "stopped"
        } else {
            "done"
        };
        RunView {
            id: self.id,
            does: self.verb.as_str(),
            state,
            pace: self.pace,
            started_at: self.started_at,
            looked_at: self.looked_at.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}
