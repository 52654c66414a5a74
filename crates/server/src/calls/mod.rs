//! Every call there is. The router, the roles, the OpenAPI document, the
//! labels of the metrics and the test that walks all routes are made from
//! this table.

mod call;

use std::sync::LazyLock;

use http::Method;
use windlass_report::view;

use crate::access::Need;
use crate::answer::RefusalView;
use crate::api::{
    actions, budgets, claim, events, health, jobs, leases, list, log, many, new_job, queues, schedules,
    sign_in, stats, steer, views, workers, writes,
};
use crate::feed::HistoryView;
use crate::pages::{self, assets};
use crate::sample;

pub(crate) use call::{Call, Param, Size};

/// The table.
pub(crate) static CALLS: LazyLock<Vec<Call>> = LazyLock::new(|| {
    let tables = [
        jobs_table(),
        steer_table(),
        log_table(),
        worker_table(),
        queue_table(),
        budget_table(),
        schedule_table(),
        watch_table(),
        people_table(),
        door_table(),
        pages::table(),
    ];
    tables.into_iter().flatten().collect()
});

/// Whether a path may be asked for without a token.
pub(crate) fn is_open(path: &str) -> bool {
    assets::is_asset(path) || CALLS.iter().any(|call| call.need == Need::Nothing && call.path == path)
}

fn jobs_table() -> Vec<Call> {
    vec![
        Call::new(Method::POST, "/v1/jobs", Need::Submit, "enqueue", |ask| Box::pin(jobs::create(ask)))
            .does("Enqueue a job. Sending the same id again is harmless.")
            .takes::<new_job::NewJobBody>(Size::Small)
            .gives::<jobs::EnqueuedView>(201, "The job was accepted and is durable.")
            .gives::<jobs::EnqueuedView>(200, "It was there before, by its id or its dedupe key.")
            .refuses(&[409]),
        Call::new(Method::POST, "/v1/jobs/batch", Need::Submit, "enqueue_many", |ask| {
            Box::pin(jobs::create_many(ask))
        })
        .does("Enqueue up to 10,000 jobs, all or none; at most 32 MiB.")
        .takes::<jobs::BatchBody>(Size::Batch)
        .gives::<jobs::BatchView>(201, "All are durable, in the order asked.")
        .refuses(&[409]),
        Call::new(Method::GET, "/v1/jobs", Need::Read, "list_jobs", |ask| Box::pin(list::list(ask)))
            .does("A page of jobs, newest first. JSON longer than 4 KiB is folded.")
            .asks(Param::LIST)
            .gives::<list::PageView>(200, "A page."),
        Call::new(Method::GET, "/v1/jobs/{id}", Need::ReadOne, "get_job", |ask| Box::pin(jobs::get(ask)))
            .does("One job with all that is known of it; waits up to `wait` for it to be over.")
            .asks(Param::JOB)
            .gives::<view::JobView>(200, "The job.")
            .refuses(&[404])
            .patient(),
        Call::new(Method::GET, "/v1/jobs/{id}/explain", Need::ReadOne, "explain_job", |ask| {
            Box::pin(jobs::explain(ask))
        })
        .does("Why a job is not running.")
        .gives::<view::ExplainView>(200, "The reason, by the same rules that the claim uses.")
        .refuses(&[404]),
    ]
}

/// What people do with jobs, one by one or many at once.
fn steer_table() -> Vec<Call> {
    vec![
        Call::new(Method::POST, "/v1/jobs/{id}/cancel", Need::Admin, "cancel_job", |ask| {
            Box::pin(steer::cancel(ask))
        })
        .does("Cancel a job: at once when it is queued, through its worker when it is running.")
        .gives::<steer::OutcomeView>(200, "`canceled` or `cancel_requested`.")
        .refuses(&[404, 409]),
        Call::new(Method::POST, "/v1/jobs/{id}/retry", Need::Admin, "retry_job", |ask| {
            Box::pin(steer::retry(ask))
        })
        .does("Start a new life of a final job. Its stored steps stay.")
        .gives::<steer::OutcomeView>(200, "`retried`.")
        .refuses(&[404, 409]),
        Call::new(Method::POST, "/v1/jobs/{id}/run", Need::Admin, "run_job", |ask| Box::pin(steer::run(ask)))
            .does("Make a queued job due that waits for its time. A key, a limit, a pause or a budget still holds it.")
            .gives::<steer::OutcomeView>(200, "`made_due` or `already_due`.")
            .refuses(&[404, 409]),
        Call::new(Method::POST, "/v1/jobs/{id}/rerun", Need::Admin, "rerun_job", |ask| {
            Box::pin(steer::rerun(ask))
        })
        .does("Start a new life of a final job from a step on. The steps that were stored before it stay.")
        .takes::<steer::RerunBody>(Size::Small)
        .gives::<steer::OutcomeView>(200, "`retried`.")
        .refuses(&[404, 409]),
        Call::new(Method::DELETE, "/v1/jobs/{id}", Need::Admin, "delete_job", |ask| {
            Box::pin(steer::delete(ask))
        })
        .does("Delete a job that is queued or over, with its steps and what it said.")
        .gives_nothing(204, "It is gone.")
        .refuses(&[404, 409]),
        Call::new(Method::POST, "/v1/jobs/retry", Need::Admin, "retry_many", |ask| {
            Box::pin(many::retry(ask))
        })
        .does("Retry all jobs that match a filter, in the background and at a pace; or count them.")
        .takes::<many::ManyBody<many::FinalState>>(Size::Small)
        .gives::<many::RunView>(202, "The run has begun; ask for it by its id.")
        .gives::<many::DryRunView>(200, "What a run would do."),
        Call::new(Method::POST, "/v1/jobs/cancel", Need::Admin, "cancel_many", |ask| {
            Box::pin(many::cancel(ask))
        })
        .does("Cancel all jobs that match a filter, in the background and at a pace; or count them.")
        .takes::<many::ManyBody<many::LiveState>>(Size::Small)
        .gives::<many::RunView>(202, "The run has begun; ask for it by its id.")
        .gives::<many::DryRunView>(200, "What a run would do."),
        Call::new(Method::POST, "/v1/jobs/run", Need::Admin, "run_many", |ask| Box::pin(many::run_now(ask)))
            .does("Make all queued jobs due that match a filter, in the background and at a pace; or count them.")
            .takes::<many::ManyBody<many::QueuedState>>(Size::Small)
            .gives::<many::RunView>(202, "The run has begun; ask for it by its id.")
            .gives::<many::DryRunView>(200, "What a run would do."),
        Call::new(Method::POST, "/v1/jobs/delete", Need::Admin, "delete_many", |ask| {
            Box::pin(many::delete(ask))
        })
        .does("Delete all jobs in the states that are said and that match a filter, in the background and at a pace; or count them.")
        .takes::<many::ManyBody<many::RestingState>>(Size::Small)
        .gives::<many::RunView>(202, "The run has begun; ask for it by its id.")
        .gives::<many::DryRunView>(200, "What a run would do."),
        Call::new(Method::GET, "/v1/retries", Need::Read, "list_retry_runs", |ask| Box::pin(many::list(ask)))
            .does("The runs over many jobs, newest first.")
            .gives::<many::RunsView>(200, "The runs of this server."),
        Call::new(Method::GET, "/v1/retries/{id}", Need::Read, "get_retry_run", |ask| {
            Box::pin(many::get(ask))
        })
        .does("How far a run is.")
        .gives::<many::RunView>(200, "The run.")
        .refuses(&[404]),
        Call::new(Method::POST, "/v1/retries/{id}/stop", Need::Admin, "stop_retry_run", |ask| {
            Box::pin(many::stop(ask))
        })
        .does("Stop a run. What was done stays done.")
        .gives::<many::RunView>(200, "The run.")
        .refuses(&[404]),
    ]
}

fn log_table() -> Vec<Call> {
    vec![
        Call::new(Method::GET, "/v1/jobs/{id}/log", Need::ReadOne, "get_log", |ask| Box::pin(log::get(ask)))
            .does("What the newest attempts of a job said.")
            .gives::<log::LogsView>(200, "Oldest first; none where nothing was said.")
            .refuses(&[404]),
    ]
}

fn worker_table() -> Vec<Call> {
    vec![
        Call::new(Method::POST, "/v1/claim", Need::Work, "claim", |ask| Box::pin(claim::claim(ask)))
            .does("Claim jobs; waits up to wait_ms for work.")
            .takes::<claim::ClaimBody>(Size::Small)
            .gives::<claim::LeasesView>(200, "The leases; empty when the wait is over.")
            .refuses(&[409, 422])
            .patient(),
        Call::new(Method::POST, "/v1/leases/renew", Need::Work, "renew", |ask| Box::pin(leases::renew(ask)))
            .does("Hold on to leases, and hear which jobs are asked to cancel.")
            .takes::<leases::RenewBody>(Size::Small)
            .gives::<leases::RenewView>(200, "What became of them.")
            .finishes(),
        Call::new(Method::POST, "/v1/leases/cancels", Need::Work, "cancels", |ask| {
            Box::pin(leases::cancels(ask))
        })
        .does("Hear which jobs are asked to cancel, without holding on to their leases.")
        .takes::<leases::RenewBody>(Size::Small)
        .gives::<leases::CancelsView>(200, "Those that are.")
        .finishes(),
        Call::new(Method::POST, "/v1/leases/settle", Need::Work, "settle", |ask| {
            Box::pin(leases::settle(ask))
        })
        .does("Say how attempts ended. Saying it again is harmless.")
        .takes::<leases::SettleBody>(Size::Batch)
        .gives::<leases::SettleView>(200, "What became of each, in the order asked.")
        .finishes(),
        Call::new(Method::PUT, "/v1/jobs/{id}/steps/{name}", Need::Work, "store_step", |ask| {
            Box::pin(writes::step(ask))
        })
        .does("Store the output of a step. The first output of a name stays.")
        .takes::<writes::StepBody>(Size::Small)
        .gives::<writes::StoredView>(200, "It is durable.")
        .refuses(&[409, 422])
        .finishes(),
        Call::new(Method::PUT, "/v1/jobs/{id}/progress", Need::Work, "report_progress", |ask| {
            Box::pin(writes::progress(ask))
        })
        .does("Say how far an attempt is.")
        .takes::<writes::ProgressBody>(Size::Small)
        .gives::<writes::StoredView>(200, "It is durable.")
        .refuses(&[409])
        .finishes(),
        Call::new(Method::PUT, "/v1/jobs/{id}/log", Need::Work, "put_log", |ask| Box::pin(log::put(ask)))
            .does("Keep what an attempt said: the last 64 KiB, as a whole. Kept for a week, of the newest four attempts.")
            .takes::<log::LogBody>(Size::Small)
            .gives::<writes::StoredView>(200, "It is durable.")
            .refuses(&[409, 422]),
    ]
}

fn queue_table() -> Vec<Call> {
    vec![
        Call::new(Method::GET, "/v1/queues", Need::Read, "list_queues", |ask| Box::pin(queues::list(ask)))
            .does("The queues that were configured or have jobs that are not final.")
            .gives::<queues::QueuesView>(200, "By name."),
        Call::new(Method::GET, "/v1/queues/{name}", Need::Read, "get_queue", |ask| {
            Box::pin(queues::get(ask))
        })
        .does("One queue.")
        .gives::<view::QueueView>(200, "The queue.")
        .refuses(&[404]),
        Call::new(Method::PUT, "/v1/queues/{name}", Need::Admin, "put_queue", |ask| {
            Box::pin(queues::put(ask))
        })
        .does("Set the policy of a queue as a whole: what is left out has its default.")
        .takes::<queues::PolicyBody>(Size::Small)
        .gives::<view::QueueView>(200, "The queue."),
        Call::new(Method::POST, "/v1/queues/{name}/pause", Need::Admin, "pause_queue", |ask| {
            Box::pin(queues::pause(ask))
        })
        .does("Pause a queue. Jobs that are running go on.")
        .gives::<view::QueueView>(200, "The queue."),
        Call::new(Method::POST, "/v1/queues/{name}/resume", Need::Admin, "resume_queue", |ask| {
            Box::pin(queues::resume(ask))
        })
        .does("Let a queue go on.")
        .gives::<view::QueueView>(200, "The queue."),
        Call::new(Method::DELETE, "/v1/queues/{name}", Need::Admin, "delete_queue", |ask| {
            Box::pin(queues::delete(ask))
        })
        .does("Take the policy of a queue away, and its pause. What has ended in it stays for the retention of any queue.")
        .gives_nothing(204, "They are gone.")
        .refuses(&[404, 409]),
    ]
}

fn budget_table() -> Vec<Call> {
    vec![
        Call::new(Method::GET, "/v1/budgets", Need::Read, "list_budgets", |ask| Box::pin(budgets::list(ask)))
            .does("The budgets, with what is used of them.")
            .gives::<budgets::BudgetsView>(200, "By name."),
        Call::new(Method::GET, "/v1/budgets/{name}", Need::Read, "get_budget", |ask| {
            Box::pin(budgets::get(ask))
        })
        .does("One budget.")
        .gives::<view::BudgetView>(200, "The budget.")
        .refuses(&[404]),
        Call::new(Method::PUT, "/v1/budgets/{name}", Need::Admin, "put_budget", |ask| {
            Box::pin(budgets::put(ask))
        })
        .does("Set what a budget allows. What was spent stays spent.")
        .takes::<budgets::BudgetBody>(Size::Small)
        .gives::<view::BudgetView>(200, "The budget."),
        Call::new(Method::DELETE, "/v1/budgets/{name}", Need::Admin, "delete_budget", |ask| {
            Box::pin(budgets::delete(ask))
        })
        .does(
            "Take a budget away, with what was spent of it. Jobs that name it have no bound by it any more.",
        )
        .gives_nothing(204, "It is gone.")
        .refuses(&[404]),
        Call::new(Method::POST, "/v1/budgets/{name}/cool-down", Need::Work, "cool_down", |ask| {
            Box::pin(budgets::cool_down(ask))
        })
        .does("Let a budget cool down: nothing of it is spent until then. `0s` ends a cool-down.")
        .takes::<budgets::CoolDownBody>(Size::Small)
        .gives::<view::BudgetView>(200, "The budget."),
        Call::new(Method::POST, "/v1/budgets/{name}/spend", Need::Work, "spend", |ask| {
            Box::pin(budgets::spend(ask))
        })
        .does("Spend of a budget, if it allows that now: for calls inside a job.")
        .takes::<budgets::SpendBody>(Size::Small)
        .gives::<budgets::SpentView>(200, "What became of it."),
    ]
}

fn schedule_table() -> Vec<Call> {
    vec![
        Call::new(Method::GET, "/v1/schedules", Need::Read, "list_schedules", |ask| {
            Box::pin(schedules::list(ask))
        })
        .does("The schedules, with their last and next runs.")
        .gives::<schedules::SchedulesView>(200, "By name."),
        Call::new(Method::GET, "/v1/schedules/{name}", Need::Read, "get_schedule", |ask| {
            Box::pin(schedules::get(ask))
        })
        .does("One schedule.")
        .gives::<view::ScheduleView>(200, "The schedule.")
        .refuses(&[404]),
        Call::new(Method::PUT, "/v1/schedules/{name}", Need::Admin, "put_schedule", |ask| {
            Box::pin(schedules::put(ask))
        })
        .does("Set a schedule. A new one begins now; one that is there goes on from where it is.")
        .takes::<schedules::ScheduleBody>(Size::Small)
        .gives::<view::ScheduleView>(200, "The schedule.")
        .refuses(&[422]),
        Call::new(Method::DELETE, "/v1/schedules/{name}", Need::Admin, "delete_schedule", |ask| {
            Box::pin(schedules::delete(ask))
        })
        .does("Take a schedule away. Its jobs stay.")
        .gives_nothing(204, "It is gone.")
        .refuses(&[404]),
        Call::new(Method::POST, "/v1/schedules/{name}/run", Need::Admin, "run_schedule", |ask| {
            Box::pin(schedules::run(ask))
        })
        .does("Enqueue the job of a schedule now.")
        .gives::<schedules::RunView>(201, "The job was enqueued.")
        .gives::<schedules::RunView>(200, "The job of an earlier run is not over: this is that one.")
        .refuses(&[404, 409]),
    ]
}

fn watch_table() -> Vec<Call> {
    vec![
        Call::new(Method::GET, "/v1/workers", Need::Read, "list_workers", |ask| Box::pin(workers::list(ask)))
            .does("The workers, as they last said of themselves.")
            .gives::<workers::WorkersView>(200, "By name."),
        Call::new(Method::DELETE, "/v1/workers/{name}", Need::Work, "forget_worker", |ask| {
            Box::pin(workers::forget(ask))
        })
        .does("Say that a worker has ended, so that nobody counts on it. Its leases stay what they are.")
        .gives_nothing(204, "It is forgotten, if it was known."),
        Call::new(Method::GET, "/v1/stats", Need::Read, "stats", |ask| Box::pin(stats::get(ask)))
            .does("How it goes. Depths are exact and up to a second old; rates, latencies and failures are approximate.")
            .gives::<stats::StatsView>(200, "How it goes."),
        Call::new(Method::GET, "/v1/stats/history", Need::Read, "history", |ask| Box::pin(stats::history(ask)))
            .does("How it went over hours, by the minute or a few, up to the last full minute. It outlives a restart of the server.")
            .asks(Param::HISTORY)
            .gives::<HistoryView>(200, "Points, oldest first; zeros where nothing is known."),
        Call::new(Method::GET, "/v1/events", Need::Read, "events", |ask| Box::pin(events::stream(ask)))
            .does("What happens, as server-sent events. Goes on from the header Last-Event-ID, or from `after`.")
            .asks(Param::EVENTS)
            .gives_text(200, "text/event-stream", "The stream; it does not end by itself.")
            .patient(),
        Call::new(Method::GET, "/v1/events/page", Need::Read, "events_page", |ask| {
            Box::pin(events::page(ask))
        })
        .does("What happened, oldest first, for those who ask from time to time; without `after`, where the events end.")
        .asks(Param::EVENTS_PAGE)
        .gives::<events::EventsView>(200, "At most 1,000 events, and where to go on.")
        .refuses(&[410]),
        Call::new(Method::GET, "/v1/audit", Need::Admin, "audit", |ask| Box::pin(health::audit(ask)))
            .does("What contradicts itself in the store. It reads everything, at once or, with `from`, in bites: ask seldom.")
            .asks(Param::AUDIT)
            .gives::<health::AuditView>(200, "Sentences; none when it is sound.")
            .patient(),
        Call::new(Method::GET, "/v1/now", Need::Token, "now", |ask| Box::pin(health::now(ask)))
            .does("The time by the store's clock, by which everything is judged, and the epoch that the store is in.")
            .gives::<health::NowView>(200, "The time."),
        Call::new(Method::GET, "/metrics", Need::Read, "metrics", |ask| Box::pin(health::metrics(ask)))
            .does("Metrics as Prometheus reads them.")
            .gives_text(200, "text/plain", "The metrics."),
    ]
}

/// What people keep beside the jobs, and what they did.
fn people_table() -> Vec<Call> {
    vec![
        Call::new(Method::GET, "/v1/views", Need::Read, "list_views", |ask| Box::pin(views::list(ask)))
            .does("The views of the list of jobs that were saved, for everybody.")
            .gives::<views::ViewsView>(200, "By name."),
        Call::new(Method::PUT, "/v1/views/{name}", Need::Admin, "put_view", |ask| Box::pin(views::put(ask)))
            .does("Save a view of the list of jobs, for everybody.")
            .takes::<views::ViewBody>(Size::Small)
            .gives_nothing(204, "It is saved.")
            .refuses(&[409, 422]),
        Call::new(Method::DELETE, "/v1/views/{name}", Need::Admin, "delete_view", |ask| {
            Box::pin(views::delete(ask))
        })
        .does("Forget a view.")
        .gives_nothing(204, "It is gone.")
        .refuses(&[404, 422]),
        Call::new(Method::GET, "/v1/actions", Need::Read, "list_actions", |ask| Box::pin(actions::list(ask)))
            .does("Who did what: the newest 200 calls that an admin made to change something, of the last 30 days.")
            .gives::<actions::ActionsView>(200, "Newest first; none where the store keeps no records."),
    ]
}

fn door_table() -> Vec<Call> {
    vec![
        Call::new(Method::POST, "/v1/sample", Need::Admin, "start_sample", |ask| {
            Box::pin(sample::start(ask))
        })
        .hidden(),
        Call::new(Method::GET, "/healthz", Need::Nothing, "healthz", |ask| Box::pin(health::healthz(ask)))
            .does("Whether the process answers.")
            .gives::<health::HealthView>(200, "It does."),
        Call::new(Method::GET, "/readyz", Need::Nothing, "readyz", |ask| Box::pin(health::readyz(ask)))
            .does("Whether the store answers, too.")
            .gives::<health::HealthView>(200, "It does."),
        Call::new(Method::GET, "/openapi.json", Need::Token, "openapi", |ask| Box::pin(health::openapi(ask)))
            .does("This document.")
            .gives::<serde_json::Map<String, serde_json::Value>>(200, "OpenAPI 3.1."),
        Call::new(Method::GET, "/docs", Need::Token, "docs", |ask| Box::pin(pages::docs(ask)))
            .does("The calls, for people.")
            .gives_text(200, "text/html", "A page."),
        Call::new(Method::POST, "/sign-in", Need::Nothing, "sign_in", |ask| Box::pin(sign_in::sign_in(ask)))
            .does("Show a token once and get a cookie for it.")
            .takes::<sign_in::SignInBody>(Size::Form)
            .gives_nothing(204, "Signed in.")
            .gives_nothing(303, "Signed in by a form: the way to the dashboard.")
            .refuses(&[401])
            // A wrong token waits, and has to wait in nobody's place.
            .patient(),
        Call::new(Method::POST, "/sign-out", Need::Token, "sign_out", |ask| Box::pin(sign_in::sign_out(ask)))
            .does("End the session of the cookie.")
            .gives_nothing(204, "Signed out.")
            .gives_nothing(303, "Signed out by a form."),
    ]
}

/// The shape of a refusal.
pub(crate) fn refusal_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<RefusalView>()
}
