//! The one queue: first come, first served, one at a time, no second try.

use std::sync::Arc;
use std::time::Duration;

use windlass_engine::core::id::QueueName;
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::ladder::Ladder;
use windlass_engine::core::policy::queue::{OnCrash, QueuePolicy};
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::{FailureReason, StateName};
use windlass_engine::core::store::Store;
use windlass_engine::process::Command;
use windlass_engine::{Context, Failure, Next, Stop, Worker};

use crate::jobs::JOBS;
use crate::settings::{Mode, Settings};

/// The queue's name.
pub(crate) const QUEUE: &str = "news-nexus";
/// How many days a job is kept after it was accepted.
pub(crate) const DAYS_KEPT: u32 = 30;
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// The worker waits a little longer than the process is given, so that it is
/// the handler that ends the process and says how.
const WORKER_GRACE: Duration = Duration::from_secs(13);
/// Variables that tell TLS where its roots are.
const ROOTS: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What holds for the queue.
pub(crate) fn policy() -> QueuePolicy {
    QueuePolicy {
        limit: Some(1),
        ladder: Ladder::NONE,
        on_crash: OnCrash::Fail,
        // Days count from the start of a job here, so the store lets them go (see DAYS_KEPT).
        retention_days: DAYS_KEPT,
        ..QueuePolicy::default()
    }
}

/// The name of the queue as the engine wants it.
pub(crate) fn name() -> QueueName {
    QueueName::new(QUEUE).unwrap_or_default()
}

/// The worker that runs the jobs, each in a process of its own.
pub(crate) fn worker(store: Arc<dyn Store>, settings: &Settings) -> std::io::Result<Worker> {
    let mut worker = Worker::new(store.clone()).queues([QUEUE]).slots(1).grace(WORKER_GRACE);
    worker = worker.layer(move |context: Context, next: Next| announce(store.clone(), context, next));
    for job in JOBS {
        let mut command = Command::this_binary(["news-nexus", "job", job.name])?
            .grace(GRACE)
            .pass_stderr(settings.mode != Mode::Production);
        for name in ROOTS {
            command = command.inherit(name);
        }
        for (name, value) in settings.environment() {
            command = command.env(&name, value);
        }
        worker = worker.handle_command(job.endpoint, command);
    }
    Ok(worker)
}

/// Writes the lines of the queue's log around an attempt.
async fn announce(store: Arc<dyn Store>, context: Context, next: Next) -> Result<Option<Json>, Failure> {
    let (id, endpoint) = (context.id(), context.job().spec.kind.clone());
    let remaining = waiting(&*store).await;
    tracing::info!(jobId = %id, endpointName = %endpoint, remaining, "Job started");
    let ended = next.run(context.clone()).await;
    // Its process was ended because the server ends, and nobody will go on with it.
    if ended.is_err() && context.stop() == Some(Stop::Shutdown) {
        tracing::warn!(jobId = %id, endpointName = %endpoint, "Job failed: the server ends");
        return Err(Failure::permanent(FailureReason::WorkerRestart.as_str()));
    }
    match ended {
        Ok(_) => {
            tracing::info!(jobId = %id, endpointName = %endpoint, "Job completed");
            Ok(None)
        }
        Err(failure @ (Failure::Permanent { .. } | Failure::Retry { .. })) => {
            let error = failure.to_string();
            let reason = reason(&error);
            // What the process itself has said is the reason already.
            let process = Some(&error).filter(|error| !error.ends_with(&reason));
            tracing::error!(jobId = %id, endpointName = %endpoint, reason, process, "Job failed");
            Err(Failure::permanent(reason))
        }
        Err(Failure::Canceled) => {
            tracing::info!(jobId = %id, endpointName = %endpoint, "Job canceled");
            Err(Failure::Canceled)
        }
        Err(failure) => {
            tracing::warn!(jobId = %id, endpointName = %endpoint, "Job stopped: its lease is lost");
            Err(failure)
        }
    }
}

/// How many jobs wait, for the log: a page at most.
pub(crate) async fn waiting(store: &dyn Store) -> usize {
    let filter = JobFilter { states: vec![StateName::Queued], ..JobFilter::default() };
    let request = ListRequest { filter, limit: PAGE_MAX, after: None };
    store.list(request).await.map_or(0, |page| page.jobs.len())
}

/// Why a job failed, for people who ask over HTTP: its own words when it had
/// any, and otherwise only how its process ended. The rest goes to the log.
fn reason(error: &str) -> String {
    if let Some(said) = error.strip_prefix("exit status: 65: ") {
        return said.to_owned();
    }
    let mut parts = error.splitn(3, ": ");
    match (parts.next(), parts.next()) {
        (Some(how @ ("exit status" | "signal")), Some(which)) => {
            format!("job_failed: its process ended unexpectedly ({how} {which}); the log says more")
        }
        _ => "job_failed: its process could not be started; the log says more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_no_path() {
        for (error, expected) in [
            ("exit status: 65: no prompt: add one", "no prompt: add one"),
            (
                "exit status: 101: thread 'main' panicked at /home/x.rs",
                "job_failed: its process ended unexpectedly (exit status 101); the log says more",
            ),
            (
                "signal: 9 (SIGKILL)",
                "job_failed: its process ended unexpectedly (signal 9 (SIGKILL)); the log says more",
            ),
            (
                "cannot start /usr/bin/windlass: x",
                "job_failed: its process could not be started; the log says more",
            ),
        ] {
            assert_eq!(reason(error), expected);
        }
    }
}
