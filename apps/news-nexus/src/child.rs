//! The process of one job: started by the server, told to stop by SIGTERM.

use std::sync::Arc;

use serde_json::Value;
use windlass_app::{Host, Stop};
use windlass_engine::Failure;
use windlass_engine::core::id::JobId;
use windlass_engine::process::Inside;
use windlass_engine::world::{RealWorld, World};

use crate::job_files::JobFiles;
use crate::jobs::{JOBS, Job};
use crate::log;
use crate::report::{End, Report};
use crate::settings::Settings;

/// How much a job gives way to the server, which has to answer at once.
const NICE: i32 = 10;

/// What a job works with.
pub(crate) struct Work {
    pub settings: Settings,
    pub world: Arc<dyn World>,
    pub stop: Stop,
}

/// Runs the job; answers the code to exit with.
pub(crate) async fn run(name: &str, host: Host) -> u8 {
    let code = Inside::exit_code(perform(name, host).await);
    u8::try_from(code).unwrap_or(1)
}

async fn perform(name: &str, host: Host) -> Result<(), Failure> {
    let job = JOBS.into_iter().find(|job| job.name == name);
    let job = job.ok_or_else(|| Failure::permanent("there is no such job; the server starts this itself"))?;
    let inside = Inside::read()?.ok_or_else(|| {
        Failure::permanent("this process runs for no job; start `windlass news-nexus` and ask it for one")
    })?;
    let id: JobId = std::env::var("WINDLASS_JOB_ID").unwrap_or_default().parse()?;
    let Host { environment, world, .. } = host;
    let settings = Settings::read(environment)?;
    log::start(&settings, Arc::new(RealWorld::new()));
    // It may not be allowed; then the job runs like everybody else.
    let _ = rustix::process::nice(NICE);
    let files = JobFiles::beside(&settings.queue_file);
    let work = Work { settings, world, stop: Stop::on_signals()? };
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
