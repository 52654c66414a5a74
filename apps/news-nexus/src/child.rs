//! The process of one job: started by the server, told to stop by SIGTERM.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use windlass_engine::core::id::JobId;
use windlass_engine::process::Inside;
use windlass_engine::world::{RealWorld, World};
use windlass_engine::{Failure, shutdown_on_signals};

use crate::job_files::JobFiles;
use crate::jobs::{JOBS, Job};
use crate::log;
use crate::report::{End, Report};
use crate::settings::Settings;
use crate::variables::Variables;

/// How much a job gives way to the server, which has to answer at once.
const NICE: i32 = 10;

/// What a job works with.
pub(crate) struct Work {
    pub settings: Settings,
    pub world: Arc<dyn World>,
    pub stop: Stop,
}

/// Says when the job is to end.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Whether it is to end.
    pub(crate) fn asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is to end.
    pub(crate) async fn wait(&mut self) {
        // Should the sender be gone, the process ends anyway.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// Runs the job; answers the code to exit with.
pub(crate) async fn run(name: &str) -> u8 {
    let code = Inside::exit_code(perform(name).await);
    u8::try_from(code).unwrap_or(1)
}

async fn perform(name: &str) -> Result<(), Failure> {
    let job = JOBS.into_iter().find(|job| job.name == name);
    let job = job.ok_or_else(|| Failure::permanent("there is no such job; the server starts this itself"))?;
    let inside = Inside::read()?.ok_or_else(|| {
        Failure::permanent("this process runs for no job; start `windlass news-nexus` and ask it for one")
    })?;
    let id: JobId = std::env::var("WINDLASS_JOB_ID").unwrap_or_default().parse()?;
    let settings = Settings::of(Variables::of_environment())?;
    let world: Arc<dyn World> = Arc::new(RealWorld::new());
    log::start(&settings, Arc::new(RealWorld::new()));
    // It may not be allowed; then the job runs like everybody else.
    let _ = rustix::process::nice(NICE);
    let files = JobFiles::beside(&settings.queue_file);
    let work = Work { settings, world, stop: listen()? };
    let report = run_job(job, work, inside.payload()?).await;
    files
        .keep_result(id, &report.to_json())
        .map_err(|error| Failure::permanent(format!("the result could not be written: {}", error.kind())))?;
    match report.end {
        End::Completed => Ok(()),
        End::Failed => Err(Failure::permanent(report.message)),
        End::Canceled => Err(Failure::Canceled),
    }
}

/// The most memory that this process has had so far, for the log; 0 when the system does not tell.
pub(crate) fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// SIGTERM and SIGINT as a word that can be looked at and waited for.
fn listen() -> std::io::Result<Stop> {
    let signals = shutdown_on_signals()?;
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        signals.await;
        tell.send_replace(true);
        // Kept, so that whoever waits later still finds the word.
        std::future::pending::<()>().await;
    });
    Ok(Stop(told))
}

async fn run_job(job: &'static Job, work: Work, parameters: Value) -> Report {
    tracing::info!("{}", "=".repeat(72));
    tracing::info!("{}", job.name);
    let report = (job.run)(work, parameters).await;
    let Report { reason, message, tally, .. } = &report;
    tracing::info!(
        endingReason = reason,
        selected = tally.selected,
        succeeded = tally.succeeded,
        skipped = tally.skipped.count,
        failed = tally.failed.count,
        notAttempted = tally.not_attempted.count,
        "{message}"
    );
    report
}
