//! `updater --once` and `processor --once`.

use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, Stop, say};
use windlass_engine::core::state::State;
use windlass_engine::{Client, JobId, Summary};

use crate::app::Place;
use crate::jobs::{self, Update};
use crate::server::{open, start_log};
use crate::settings::{Roles, Settings};
use crate::staff::Staff;
use crate::status::Status;
use crate::time::iso;
use crate::update::Report;

/// How often the run is looked at.
const LOOK_MS: u64 = 20;

async fn staff(host: &Host, place: &Place, roles: Roles) -> Result<Staff, AppError> {
    let settings = Settings::read(&host.environment, roles)?;
    if !host.json {
        start_log(host, place.log);
    }
    let store = open(host, place).await?;
    jobs::prepare(&*store, &settings).await?;
    Ok(Staff::new(store, host.world.clone(), &settings, roles)?)
}

/// One run of the updater. Should one be under way already, it is that one.
pub async fn updater(host: &Host, place: &Place) -> Result<Exit, AppError> {
    let staff = staff(host, place, Roles { updater: true, processor: false }).await?;
    let client = staff.archive.client.clone();
    let job = client.enqueue(Update::asked_for().ladder("none")).await?;
    let stop = Stop::on_signals()?;
    let ended = stop.clone();
    let worker = staff.worker(false).ok_or("there is no updater")?;
    let working = tokio::spawn(worker.run_until(stop.wait()));
    let came = tokio::select! {
        came = came(host, &client, job.id()) => came?,
        () = ended.wait() => Came::Stopped,
    };
    ended.ask();
    working.await??;
    match came {
        Came::Done(report) if host.json => print_json(&report)?,
        Came::Done(Report { pages, found, new, skipped, unusable, complete }) => {
            let odd = match unusable {
                0 => String::new(),
                count => format!(", {count} without id or title"),
            };
            let more = if complete { "" } else { "; the next run goes on where this one stopped" };
            say!("{pages} pages, {found} articles, {new} new, {skipped} skipped{odd}{more}");
        }
        Came::Failed(why) => {
            eprintln!("the updater ended early: {why}; what is missing comes with the next run");
            return Ok(Exit::FAILED);
        }
        Came::Stopped => return Ok(Exit::FAILED),
    }
    Ok(Exit::DONE)
}

enum Came {
    Done(Report),
    Failed(String),
    Stopped,
}

/// Waits until the job is over, or is put off.
async fn came(host: &Host, client: &Client, id: JobId) -> Result<Came, AppError> {
    loop {
        let job = client.get(id).await?.ok_or("the run is gone")?;
        let now = client.store().now().await?;
        match &job.state {
            State::Completed { result, .. } => {
                let report = result.as_ref().map(|result| result.read()).transpose()?;
                return Ok(Came::Done(report.unwrap_or_default()));
            }
            State::Failed { .. } => {
                return Ok(Came::Failed(job.last_error().unwrap_or("no reason").to_owned()));
            }
            State::Canceled { .. } => return Ok(Came::Failed("it was canceled".to_owned())),
            State::Queued if job.run_at.ms_since(now) > 1_000 => {
                return Ok(Came::Failed(format!("it has to wait until {}", iso(job.run_at.ms()))));
            }
            State::Queued | State::Running(_) => host.world.sleep_ms(LOOK_MS).await,
        }
    }
}

/// One run of the processor.
pub async fn processor(host: &Host, place: &Place) -> Result<Exit, AppError> {
    let staff = staff(host, place, Roles { updater: false, processor: true }).await?;
    staff.archive.repair().await?;
    let stop = Stop::on_signals()?;
    let Summary { claimed, .. } = staff.process_once(stop.wait()).await?;
    let status = Status::look(&staff.archive).await?;
    match host.json {
        true => print_json(&serde_json::json!({"articles": claimed, "status": status}))?,
        false => {
            say!("{claimed} articles in this run");
            say!("{}", status.text().lines().next().unwrap_or_default());
        }
    }
    Ok(Exit::DONE)
}
