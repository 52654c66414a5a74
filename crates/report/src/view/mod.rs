//! How things look in an answer. What a field means is said where its name does not: the same texts describe it in the
//! OpenAPI document.

#![expect(
    missing_docs,
    reason = "most fields are named as in the answer, and a sentence would say their name again"
)]

mod admin;
mod job;
mod life;

pub use admin::{BudgetView, CrashView, QueueView, ScheduleView, WorkerView};
pub use job::{Detail, ExplainView, JobView, RetryView, StepView};
pub use life::AttemptView;
