//! Things as the API writes them, for whoever else writes JSON for programs:
//! `windlass jobs --json` says what `GET /v1/jobs` answers.

use serde::Serialize;
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::Job;
use windlass_engine::core::policy::schedule::Schedule;
use windlass_engine::core::query::{QueueStatus, WorkerStatus};
use windlass_engine::core::store::{BudgetStatus, Store};
use windlass_engine::core::time::Time;

use crate::crashes::Crashes;
use crate::view::{BudgetView, CrashView, Detail, ExplainView, JobView, QueueView, ScheduleView, WorkerView};

/// A job with all that is known of it, as `GET /v1/jobs/{id}` answers it.
pub fn job(job: Job) -> impl Serialize {
    JobView::new(job, Detail::Full, false)
}

/// A job of a list, as `GET /v1/jobs` answers it: long JSON is folded.
pub fn listed(job: Job) -> impl Serialize {
    JobView::new(job, Detail::Listed, false)
}

/// Why a job is not running, as `GET /v1/jobs/{id}/explain` answers it.
pub fn explanation(id: JobId, explanation: Explanation) -> impl Serialize {
    ExplainView { id, explanation }
}

/// A queue, as `GET /v1/queues` answers it.
pub fn queue(status: QueueStatus, now: Time) -> impl Serialize {
    QueueView::new(status, now)
}

/// A budget, as `GET /v1/budgets` answers it.
pub fn budget(status: BudgetStatus, now: Time) -> impl Serialize {
    BudgetView::new(status, now)
}

/// A schedule, as `GET /v1/schedules` answers it.
pub fn schedule(schedule: Schedule) -> impl Serialize {
    ScheduleView::new(schedule, false)
}

/// The workers of a store, each with its last crash.
pub async fn workers(store: &dyn Store) -> Result<Vec<Worker>, StoreError> {
    let (workers, crashes) = tokio::try_join!(store.workers(), Crashes::of_store(store))?;
    let with_crash = |status: WorkerStatus| Worker { crash: crashes.of(&status), status };
    Ok(workers.into_iter().map(with_crash).collect())
}

/// A worker, and its last crash.
pub struct Worker {
    /// As it last said of itself.
    pub status: WorkerStatus,
    crash: Option<CrashView>,
}

impl Worker {
    /// When it, or another of its host, last crashed.
    pub fn crashed_at(&self) -> Option<Time> {
        self.crash.as_ref().map(|crash| crash.at)
    }

    /// As `GET /v1/workers` answers it.
    pub fn text(self, now: Time) -> impl Serialize {
        WorkerView::new(self.status, self.crash, now)
    }
}
