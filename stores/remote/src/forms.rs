//! What calls give and take, as JSON; jobs and policies are in `wire.rs`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::eligible::Explanation;
use windlass_core::event::Event;
use windlass_core::id::{JobId, StepName};
use windlass_core::log::LogPage;
use windlass_core::query::WorkerStatus;
use windlass_core::store::Risk;
use windlass_core::time::Time;

use crate::wire::{BudgetWire, JobWire, QueueWire, ScheduleWire};

#[derive(Deserialize)]
pub(crate) struct EnqueuedWire {
    pub(crate) jobs: Vec<EnqueuedEntry>,
}

#[derive(Deserialize)]
pub(crate) struct EnqueuedEntry {
    pub(crate) id: JobId,
    pub(crate) deduplicated: bool,
}

#[derive(Deserialize)]
pub(crate) struct PageWire {
    pub(crate) jobs: Vec<JobWire>,
    pub(crate) next_cursor: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct OutcomeWire {
    pub(crate) outcome: String,
}

#[derive(Serialize)]
pub(crate) struct RerunWire {
    pub(crate) from: StepName,
}

#[derive(Deserialize)]
pub(crate) struct ExplainWire {
    pub(crate) explanation: Explanation,
}

#[derive(Deserialize)]
pub(crate) struct QueuesWire {
    pub(crate) queues: Vec<QueueWire>,
}

#[derive(Deserialize)]
pub(crate) struct BudgetsWire {
    pub(crate) budgets: Vec<BudgetWire>,
}

#[derive(Deserialize)]
pub(crate) struct SchedulesWire {
    pub(crate) schedules: Vec<ScheduleWire>,
}

#[derive(Deserialize)]
pub(crate) struct WorkersWire {
    pub(crate) workers: Vec<WorkerStatus>,
}

#[derive(Serialize)]
pub(crate) struct LogWire {
    pub(crate) fence: u64,
    pub(crate) dropped: u64,
    pub(crate) text: String,
}

#[derive(Deserialize)]
pub(crate) struct LogsWire {
    pub(crate) logs: Vec<LogPage>,
}

#[derive(Deserialize)]
pub(crate) struct AuditWire {
    pub(crate) findings: Vec<String>,
    #[serde(default)]
    pub(crate) risks: Vec<Risk>,
    pub(crate) next: Option<String>,
    #[serde(default = "one")]
    pub(crate) done: u64,
    #[serde(default = "one")]
    pub(crate) of: u64,
}

/// A server of before answers with all in one bite.
fn one() -> u64 {
    1
}

#[derive(Deserialize)]
pub(crate) struct EventsWire {
    pub(crate) position: String,
    pub(crate) events: Vec<Event>,
}

#[derive(Deserialize)]
pub(crate) struct NowWire {
    pub(crate) at: Time,
    /// A server of before does not say it.
    pub(crate) epoch: Option<EpochWire>,
}

#[derive(Deserialize)]
pub(crate) struct EpochWire {
    pub(crate) number: u64,
    pub(crate) instance: Uuid,
    pub(crate) floor: u64,
    pub(crate) began_at: Time,
    pub(crate) first_seq: u64,
    pub(crate) lossy: bool,
    pub(crate) paused_until: Option<Time>,
}
