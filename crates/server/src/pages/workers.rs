//! The workers, as they last said of themselves.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;
use windlass_report::view::WorkerView;
use windlass_report::words::short_id;

use super::bits::{bar, moment, name, shape, since};
use super::empty;
use super::frame::{Sheet, Watch, answer};
use super::part::Part;
use crate::answer::Answered;
use crate::api::workers::seen;
use crate::ask::Ask;

const TICK_SECONDS: u32 = 5;
/// A program that knows more kinds than this is cut short.
const KINDS_MAX: usize = 8;
/// How many of the jobs that a worker runs are named.
const RUNS_MAX: usize = 6;

/// `GET /workers`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let workers = seen(&ask.api, ask.api.store.workers().await?, now);
    let part = Part::asked(&ask, &workers, |worker| worker.name.as_str())?;
    let running = running(&ask).await?;
    let body = html! {
        h1 { "Workers" }
        @if workers.is_empty() {
            (empty::none("No worker yet", "A worker is a program with handlers: in Rust by the crate windlass, in any language by the API, or any program by", "windlass work --kind hello -- ./hello.sh"))
        } @else {
            (table(part.shown, &running, now))
            (part.pages("/workers", "workers"))
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(
        &ask,
        StatusCode::OK,
        Sheet { title: "Workers".to_owned(), place: "/workers", watch, now, body },
    ))
}

/// The newest running jobs, by who runs them.
async fn running(ask: &Ask) -> Result<Vec<Job>, crate::answer::Refusal> {
    let filter = JobFilter { states: vec![StateName::Running], ..JobFilter::default() };
    let request = ListRequest { filter, limit: PAGE_MAX, after: None };
    Ok(ask.api.store.list(request).await?.jobs)
}

/// What a worker runs, as far as it is among the newest running jobs.
fn runs(worker: &WorkerView, running: &[Job]) -> Markup {
    let own = running.iter().filter(|job| job.worker.as_ref() == Some(&worker.name));
    html! {
        @for (at, job) in own.take(RUNS_MAX).enumerate() {
            @if at > 0 { ", " }
            a href={ "/jobs/" (job.id) } { (name(job.spec.kind.as_str())) }
        }
    }
}

fn table(workers: &[WorkerView], running: &[Job], now: Time) -> Markup {
    html! {
        table.rows.stack {
            thead { tr {
                th { "worker" } th { span.hidden { "state" } } th.num { "running" } th.num { "slots" } th.wide { span.hidden { "share" } } th.w { "runs" } th { "queues" } th.w { "kinds" }
                th.num { "up" } th { "seen" }
            } }
            tbody {
                @for worker in workers {
                    tr id={ "w-" (worker.name) } data-row {
                        td.text { (name(worker.name.as_str())) (whence(worker, now)) }
                        td { @if worker.alive { span.state.running { (shape("running")) "alive" } } @else { span.state.canceled { (shape("canceled")) "silent" } } }
                        td.num data-l="running" { (worker.running) }
                        td.num data-l="slots" { (worker.slots) }
                        td.wide { (bar(u64::from(worker.running), u64::from(worker.slots))) }
                        td.text.w { (runs(worker, running)) }
                        td.text data-l="queues" { (names(worker.queues.iter().map(|queue| queue.as_str()))) }
                        td.text.w { @if let Some(kinds) = &worker.kinds { (names(kinds.iter().map(|kind| kind.as_str()))) } @else { "any" } }
                        td.num data-l="up" { (since(worker.started_at, now)) }
                        td.nowrap data-l="seen" { (moment(worker.seen_at, now)) }
                    }
                }
            }
        }
    }
}

/// With what and where it works, and when it last crashed.
fn whence(worker: &WorkerView, now: Time) -> Markup {
    let said: Vec<&str> = [&worker.version, &worker.host].into_iter().flatten().map(String::as_str).collect();
    html! {
        @if !said.is_empty() { div.quiet { (said.join(" on ")) } }
        @if let Some(crash) = &worker.last_crash {
            div.bad { "crashed " (moment(crash.at, now)) " at "
                a href={ "/jobs/" (crash.job_id) } title=(crash.job_id) { (short_id(crash.job_id)) }
                @if crash.worker != worker.name { span.quiet { " as " (crash.worker) } } }
        }
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Markup {
    let names: Vec<&str> = names.collect();
    html! {
        @for (at, one) in names.iter().take(KINDS_MAX).enumerate() {
            @if at > 0 { ", " }
            (name(one))
        }
        @if names.len() > KINDS_MAX { span.quiet title=(names.join(", ")) { " and " (names.len() - KINDS_MAX) " more" } }
    }
}
