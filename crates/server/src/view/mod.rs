//! How things look in an answer.

mod admin;
mod job;
mod life;

pub(crate) use admin::{BudgetView, CrashView, QueueView, ScheduleView, WorkerView};
pub(crate) use job::{Detail, JobView, RetryView, StepView};
pub(crate) use life::AttemptView;
