//! The explain line: why a job is not running, as a sentence.

use maud::{Markup, html};
use windlass_engine::core::eligible::{Explanation, Hold};
use windlass_engine::core::job::Job;
use windlass_engine::core::time::Time;
use windlass_report::words::{agreeing, counted, number, short_id};

use super::bits::{budget_at, moment, since};

/// The sentence; nothing for a job that is over, whose state says it all.
pub(super) fn line(explanation: &Explanation, job: &Job, now: Time) -> Option<Markup> {
    Some(match explanation {
        Explanation::Final { .. } => return None,
        Explanation::Running { worker, since: at } => {
            let canceling = job.lease().is_some_and(|lease| lease.cancel_requested);
            html! {
                "Running on " b { (worker) } " for " (since(*at, now)) "."
                @if canceling { " Asked to cancel; its worker is ending it." }
            }
        }
        Explanation::Held { holds } => html! {
            "Waits: "
            @for (at, hold) in holds.iter().enumerate() {
                @if at > 0 { "; and " }
                (held(hold, job, now))
            }
            "."
        },
        Explanation::Ready { ahead: _, workers: 0 } => html! {
            "Could run, but no worker that is alive knows the kind " b { (job.spec.kind) } " and claims from the queue "
            b { (job.spec.queue) } ". Start one: "
            code { "windlass work --kind " (job.spec.kind) " --queue " (job.spec.queue) " -- …" }
        },
        Explanation::Ready { ahead, workers } => html! {
            "Next: nothing holds it back. " (number(u64::from(*ahead))) @if *ahead >= 1_000 { " or more" }
            " " (agreeing(u64::from(*ahead), "goes", "go")) " first, " (counted(u64::from(*workers), "worker")) " could take it."
        },
    })
}

fn held(hold: &Hold, job: &Job, now: Time) -> Markup {
    let budget_link = |name: &str| html! { a href=(budget_at(name)) { "budget " (name) } };
    match hold {
        Hold::NotDue { run_at } if job.attempt > 0 => {
            html! { "for its next attempt " (moment(*run_at, now)) }
        }
        Hold::NotDue { run_at } => html! { "for its time, " (moment(*run_at, now)) },
        Hold::QueuePaused => html! { "its queue " a href="/queues" { (job.spec.queue) } " is paused" },
        Hold::EpochPause { until } => html! {
            "until " (moment(*until, now)) ": the store was restored or failed over, and somebody may still hold this job "
            "by what was lost"
        },
        Hold::QueueFull { limit } => {
            html! { "its queue " a href="/queues" { (job.spec.queue) } " runs " (limit) " at once and is full" }
        }
        Hold::KeyBusy { key, job } => html! {
            "another job with the key " b { (key) } " is running: "
            a href={ "/jobs/" (job) } title=(job) { (short_id(*job)) }
        },
        Hold::BudgetCooling { budget, until } => {
            html! { "the " (budget_link(budget.as_str())) " cools down, over " (moment(*until, now)) }
        }
        Hold::BudgetSlots { budget, slots } => {
            html! { "all " (slots) " slots of the " (budget_link(budget.as_str())) " are taken" }
        }
        Hold::BudgetSpent { budget, until } => {
            html! { "the " (budget_link(budget.as_str())) " is spent, more " (moment(*until, now)) }
        }
    }
}
