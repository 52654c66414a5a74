//! Things as the API writes them, for whoever else writes JSON for programs:
//! `windlass jobs --json` says what `GET /v1/jobs` answers.

use serde::Serialize;
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::Job;
use windlass_engine::core::policy::schedule::Schedule;
use windlass_engine::core::query::{QueueStatus, WorkerStatus};
use windlass_engine::core::store::BudgetStatus;
use windlass_engine::core::time::Time;

use crate::api::jobs::ExplainView;
use crate::view::{BudgetView, Detail, JobView, QueueView, ScheduleView, WorkerView};

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

/// A worker, as `GET /v1/workers` answers it; of crashes only a server knows, which has seen them.
pub fn worker(status: WorkerStatus, now: Time) -> impl Serialize {
    WorkerView::new(status, None, now)
}
