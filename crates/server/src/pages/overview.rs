//! The overview: how it goes, at a glance.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::time::Time;
use windlass_report::doctor::Finding;
use windlass_report::view::{BudgetView, QueueView, WorkerView};
use windlass_report::words::{counted, number, short_id};

use super::bits::{bar, dash, encoded, length, moment, name, shape, since};
use super::chart::{Chart, Line, Unit, chart, lifted};
use super::frame::{Sheet, Watch, answer};
use super::{budgets, empty, trend};
use crate::answer::Answered;
use crate::api::stats::{StatsView, current};
use crate::api::trouble;
use crate::ask::Ask;
use crate::feed::{Failures, Span};
use crate::sample::may_start;
use crate::settings::Role;

/// How often it is made anew when nothing happens, so that its charts move.
const TICK_SECONDS: u32 = 5;
/// How many queues are shown, and how many budgets: there may be ten thousand.
const BUSIEST_MAX: usize = 20;
/// How many workers are named.
const WORKERS_MAX: usize = 12;
/// How many things that are wrong are shown.
const TROUBLES_MAX: usize = 5;

/// `GET /`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let span = trend::asked(&ask)?;
    let stats = current(&ask.api).await?;
    let body = if stats.is_blank() && ask.api.is_empty().await? {
        let can_sample = may_start(&ask.api, &ask.caller).await.is_ok();
        empty::store(&ask, can_sample)
    } else {
        let admin = ask.caller.role == Role::Admin;
        let charts = charts(&ask, &stats, span);
        show(&stats, &trouble::current(&ask.api).await?, charts, admin)
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    let sheet = Sheet { title: title(&stats), place: "/", watch, now: stats.at, body };
    Ok(answer(&ask, StatusCode::OK, sheet))
}

fn title(stats: &StatsView) -> String {
    format!("{} queued, {} running", number(stats.queued), number(stats.running))
}

/// The last minutes by the second, or hours of the history.
fn charts(ask: &Ask, stats: &StatsView, span: Option<Span>) -> Markup {
    let spans: Vec<&str> = [trend::RECENT].into_iter().chain(Span::ALL.map(Span::as_str)).collect();
    html! {
        (trend::choice("/", &spans, span.map_or(trend::RECENT, Span::as_str)))
        @if let Some(span) = span {
            (trend::charts(&ask.api.feed.rings(|rings| rings.history.points(None, span, stats.at)), span))
        } @else {
            div.two { (chart(&throughput(stats))) (chart(&latency(stats))) }
        }
    }
}

fn show(stats: &StatsView, findings: &[Finding], charts: Markup, admin: bool) -> Markup {
    let now = stats.at;
    html! {
        h1.hidden { "Overview" }
        (troubles(findings, admin))
        (figures(stats))
        (charts)
        div.two {
        section {
            h2 { a href="/queues" { "Queues" } }
            @if stats.queues.is_empty() { p.quiet { "No queue has work, and none has a policy of its own." } }
            @else {
                (queues(&busiest(&stats.queues, work_of), now))
                (more("/queues", stats.queues.len()))
            }
        }
        section {
            h2 { "Failures " small {
                (counted(failed_attempts(stats), "failed attempt")) " in the last " (stats.failures_ms / 60_000) " minutes, by what they say"
            } }
            @if stats.failures.is_empty() { p.quiet { "None." } } @else { (failures(&stats.failures, now, admin)) }
        }
        }
        div.two {
            section {
                h2 { a href="/budgets" { "Budgets" } }
                @if stats.budgets.is_empty() { p.quiet { "None is defined." } }
                @else {
                    (budgets::table(&busiest(&stats.budgets, spent_of), now))
                    (more("/budgets", stats.budgets.len()))
                }
            }
            section {
                h2 { a href="/workers" { "Workers" } " " small { (stats.workers_alive) " alive" } }
                (workers(&stats.workers, now))
            }
        }
    }
}

/// What is wrong comes first, each with what to do.
fn troubles(findings: &[Finding], admin: bool) -> Markup {
    html! {
        @if !findings.is_empty() {
            section.troubles aria-label="What is wrong" {
                @for Finding { wrong, next, command, link, act } in findings.iter().take(TROUBLES_MAX) {
                    div.why.bad {
                        b { @if let Some(link) = link { a href=(link) { (wrong) } } @else { (wrong) } } ". " (next) "."
                        @if let Some((label, path)) = act.as_ref().filter(|_| admin) {
                            " " button type="button" data-post=(path) data-said="Done" { (label) }
                        }
                        @if let Some(command) = command {
                            span.command { code { (command) } " " button.copy type="button" data-copy=(command) { "Copy" } }
                        }
                    }
                }
                @if findings.len() > TROUBLES_MAX { p.quiet { "and " (findings.len() - TROUBLES_MAX) " more: " code { "windlass doctor" } } }
            }
        }
    }
}

/// All of them, counted by the events; what they say is known of some.
fn failed_attempts(stats: &StatsView) -> u64 {
    let per_second: f64 = stats.throughput.troubled().iter().sum();
    (per_second * stats.throughput.step_seconds as f64).round() as u64
}

fn figures(stats: &StatsView) -> Markup {
    let oldest = stats.queues.iter().filter_map(|queue| queue.oldest_due_at).min();
    let minute = |points: &[f64]| {
        let recent = &points[points.len().saturating_sub(60 / stats.throughput.step_seconds)..];
        recent.iter().sum::<f64>() * stats.throughput.step_seconds as f64
    };
    html! {
        dl.figures {
            div { dt { (shape("queued")) "queued " @if stats.queued > 0 { a href="/waiting" { "why?" } } } dd { a href="/jobs?state=queued" { (number(stats.queued)) } } }
            div { dt { (shape("running")) "running" } dd { a href="/jobs?state=running" { (number(stats.running)) } } }
            div { dt { "oldest due" } dd { @if let Some(at) = oldest { (since(at, stats.at)) } @else { (dash()) } } }
            div {
                dt { (shape("completed")) "completed, last minute" }
                dd { a href="/jobs?state=completed" { (number(minute(&stats.throughput.completed).round() as u64)) } }
            }
            div {
                dt { (shape("failed")) "failed, last minute" }
                dd { a href="/jobs?state=failed" { (number(minute(&stats.throughput.failed).round() as u64)) } }
            }
            div { dt { "workers alive" } dd { a href="/workers" { (stats.workers_alive) } } }
        }
    }
}

/// The shortest of 2, 5 and 15 minutes that holds all that was seen: a server
/// that has just started shows no empty quarter of an hour.
fn span_seconds(stats: &StatsView) -> usize {
    let from = &stats.throughput;
    let rates = [&from.enqueued, &from.completed, &from.started, &from.failed, &from.retrying];
    let first = rates.iter().filter_map(|rates| rates.iter().position(|rate| *rate > 0.0)).min();
    let needed = first.map_or(0, |first| (from.completed.len() - first) * from.step_seconds);
    let whole = from.completed.len() * from.step_seconds;
    [120, 300].into_iter().find(|span| needed <= *span).unwrap_or(whole)
}

/// At most this many points: more of them are noise to the eye.
const POINTS_MAX: usize = 60;

/// Neighbours put together, so that a long span reads as calmly as a short one.
fn smoothed(points: &[f64]) -> Vec<f64> {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    points.chunks(together).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect()
}

fn throughput(stats: &StatsView) -> Chart<'static> {
    let from = &stats.throughput;
    let span = span_seconds(stats);
    let newest = |points: &[f64]| smoothed(&points[points.len() - span / from.step_seconds..]);
    let line =
        |name, class, points: Vec<Option<f64>>, filled| Line { name, class, points, filled, said: None };
    let known = |points: &[f64]| newest(points).into_iter().map(Some).collect();
    Chart {
        name: "Throughput, jobs per second",
        unit: Unit::PerSecond,
        span_ms: span as u64 * 1_000,
        lines: vec![
            line("completed", "main", known(&from.completed), true),
            line("enqueued", "second", known(&from.enqueued), false),
            line("failed attempts", "bad", lifted(&newest(&from.troubled())), false),
        ],
    }
}

fn latency(stats: &StatsView) -> Chart<'static> {
    let from = &stats.latency_points;
    let span = span_seconds(stats);
    let said = |percentiles: Option<crate::feed::Percentiles>| {
        percentiles.map(|found| format!("p50 {}, p95 {}", length(found.p50), length(found.p95)))
    };
    let line = |name, class, points: &[Option<u64>], said| Line {
        name,
        class,
        points: points[points.len() - span / from.step_seconds..]
            .iter()
            .map(|point| point.map(|ms| ms as f64))
            .collect(),
        filled: false,
        said,
    };
    Chart {
        name: "Latency, p95 of each quarter minute",
        unit: Unit::Ms,
        span_ms: span as u64 * 1_000,
        lines: vec![
            line("run", "main", &from.run_ms, said(stats.latency.run_ms)),
            line("wait", "second", &from.wait_ms, said(stats.latency.wait_ms)),
        ],
    }
}

/// Those with the most to do, in the order that they had: a list by size would never stand still.
fn busiest<T, K: Ord>(all: &[T], size: impl Fn(&T) -> K) -> Vec<&T> {
    let mut sized: Vec<(usize, K)> = all.iter().map(&size).enumerate().collect();
    sized.sort_by(|(_, one), (_, other)| other.cmp(one));
    let mut shown: Vec<usize> = sized.into_iter().take(BUSIEST_MAX).map(|(at, _)| at).collect();
    shown.sort_unstable();
    shown.into_iter().map(|at| &all[at]).collect()
}

/// How much there is to do in a queue.
fn work_of(queue: &QueueView) -> (u64, u64) {
    (queue.running, queue.depth)
}

/// How much of a budget is in use.
fn spent_of(budget: &BudgetView) -> (bool, u32, u32) {
    let used = &budget.used;
    (budget.cooling_until.is_some(), used.slots + used.second, used.minute.max(used.day))
}

fn more(place: &str, all: usize) -> Markup {
    html! {
        @if all > BUSIEST_MAX { p.quiet { "The busiest " (BUSIEST_MAX) "; " a href=(place) { (number((all - BUSIEST_MAX) as u64)) " more" } } }
    }
}

fn queues(queues: &[&QueueView], now: Time) -> Markup {
    html! {
        table.rows {
            thead { tr {
                th { "queue" } th.num { "queued" } th.num { "oldest due" } th.num { "running" }
                th.num { "limit" } th.wide { span.hidden { "share" } }
            } }
            tbody {
                @for queue in queues {
                    tr id={ "q-" (encoded(queue.name.as_str())) } data-row {
                        td.text { a.open href={ "/queues/" (encoded(queue.name.as_str())) } { (name(queue.name.as_str())) }
                            @if queue.paused { " " span.tag { "paused" } } }
                        td.num { (number(queue.depth)) }
                        td.num { @if let Some(at) = queue.oldest_due_at { (since(at, now)) } @else { (dash()) } }
                        td.num { (number(queue.running)) }
                        td.num { @if let Some(limit) = queue.policy.limit { (limit) } @else { (dash()) } }
                        td.wide { @if let Some(limit) = queue.policy.limit { (bar(queue.running, u64::from(limit))) } }
                    }
                }
            }
        }
    }
}

fn failures(failures: &[Failures], now: Time, admin: bool) -> Markup {
    html! {
        table.rows {
            thead { tr { th.num { "times" } th { "error" } th.w { "kind" } th { "last" } th.w { "job" } } }
            tbody {
                @for group in failures {
                    tr data-row {
                        td.num { @if group.estimated { span title="Estimated: some of them were looked at" { "≈ " (number(group.count)) } } @else { (number(group.count)) } }
                        td.text {
                            @if group.is_named() { a.open href={ "/jobs?error=" (encoded(&group.error)) } title="All jobs whose newest error is this" { (group.error) } }
                            @else { a.open href={ "/jobs/" (group.last_job) } { @if group.error.is_empty() { (dash()) } @else { (group.error) } } }
                            @if group.is_named() { (group_acts(group, admin)) }
                        }
                        td.text.w {
                            @for (at, kind) in group.kinds.iter().enumerate() {
                                @if at > 0 { ", " }
                                a href={ "/jobs?kind=" (encoded(kind.as_str())) } { (name(kind.as_str())) }
                            }
                            @if group.more_kinds > 0 { span.quiet { " and " (group.more_kinds) " more" } }
                        }
                        td.nowrap { (moment(group.last_at, now)) }
                        td.w { a.id href={ "/jobs/" (group.last_job) } title=(group.last_job) { (short_id(group.last_job)) } }
                    }
                }
            }
        }
    }
}

/// What can be done with all jobs of a group.
fn group_acts(group: &Failures, admin: bool) -> Markup {
    let body = |states: [&str; 2]| {
        let states: Vec<&str> = states.into_iter().filter(|state| !state.is_empty()).collect();
        serde_json::json!({ "filter": { "state": states, "error": group.error } }).to_string()
    };
    let command = format!("windlass retry --state failed --error {}", shell_quoted(&group.error));
    html! {
        span.acts-line {
            @if admin {
                button.plain type="button" data-post="/v1/jobs/retry" data-body=(body(["failed", ""])) data-said="They are being retried"
                    data-ask="Retry all failed jobs with this error?" data-more=(group.error) { "retry" }
                button.plain type="button" data-post="/v1/jobs/cancel" data-body=(body(["queued", "running"])) data-said="They are being canceled"
                    data-ask="Cancel all jobs with this error that are not over?" data-more=(group.error) { "cancel" }
            }
            button.plain type="button" data-copy=(command) { "copy as a command" }
        }
    }
}

/// A text as a word of a shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn workers(workers: &[WorkerView], now: Time) -> Markup {
    let alive: Vec<&WorkerView> = workers.iter().filter(|worker| worker.alive).collect();
    html! {
        @if alive.is_empty() {
            p.quiet { "None is alive. Start one: " code { "windlass work --kind … -- …" } }
        } @else {
            table.rows {
                thead { tr { th { "worker" } th.num { "running" } th.num { "slots" } th.wide { span.hidden { "share" } } th { "seen" } } }
                tbody {
                    @for worker in alive.iter().take(WORKERS_MAX) {
                        tr {
                            td.text { (name(worker.name.as_str())) }
                            td.num { (worker.running) }
                            td.num { (worker.slots) }
                            td.wide { (bar(u64::from(worker.running), u64::from(worker.slots))) }
                            td.nowrap { (moment(worker.seen_at, now)) }
                        }
                    }
                }
            }
            @if alive.len() > WORKERS_MAX { p.quiet { a href="/workers" { "and " (alive.len() - WORKERS_MAX) " more" } } }
        }
    }
}
