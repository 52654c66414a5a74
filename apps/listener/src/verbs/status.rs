//! `status` and `locks`.

use windlass_app::output::{plain, print_json, table};
use windlass_app::{AppError, Exit, Host, say};

use crate::home::Home;
use crate::report::{self, LaneReport, Report};
use crate::settings::Work;

async fn ask(host: &Host, home: &Home) -> Result<Report, AppError> {
    let lock = Work::read(&host.environment)?.lock;
    Ok(report::report(home, lock.as_secs_f64()).await?)
}

fn span(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 100.0 => format!("{seconds:.1} s"),
        Some(seconds) if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        Some(seconds) => format!("{:.1} h", seconds / 3_600.0),
    }
}

fn state(lane: &LaneReport) -> &'static str {
    match (&lane.problem, lane.is_active, &lane.owner, lane.is_stale) {
        (Some(_), ..) => "refused",
        (None, false, ..) => "paused",
        (None, true, None, _) => "free",
        (None, true, Some(_), true) => "stale",
        (None, true, Some(_), false) => "held",
    }
}

/// Why listeners are refused: below the table, which has no room for it.
fn say_refused(report: &Report) {
    let mut said = None;
    for lane in &report.lanes {
        if let Some(why) = lane.problem.as_ref().filter(|_| said != Some(&lane.listener)) {
            say!("{} is refused: {}", plain(&lane.listener), plain(why));
            said = Some(&lane.listener);
        }
    }
}

pub(crate) async fn status(host: &Host, home: &Home) -> Result<Exit, AppError> {
    let report = ask(host, home).await?;
    if host.json {
        print_json(&report)?;
        return Ok(Exit::DONE);
    }
    let rows = report.lanes.iter().map(|lane| {
        let cells = [
            lane.lane.clone(),
            lane.databases.clone().unwrap_or_else(|| "-".to_owned()),
            lane.collection.clone(),
            lane.job_name.clone(),
            state(lane).to_owned(),
            lane.owner.clone().unwrap_or_default(),
            span(lane.lease_age),
            span(lane.lag),
            span(lane.position_age),
            lane.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}/s")),
            lane.errors.to_string(),
            lane.open_gaps.to_string(),
            lane.waiting.to_string(),
            lane.dead_letters.to_string(),
        ];
        cells.iter().map(|cell| plain(cell)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let head = [
        "listener",
        "databases",
        "collection",
        "job",
        "state",
        "owner",
        "lease",
        "lag",
        "position",
        "rate",
        "errors",
        "gaps",
        "waiting",
        "dead",
    ];
    say!("{}", table(&head, &rows));
    say_refused(&report);
    let live = report.instances.iter().filter(|instance| instance.is_live).count();
    let instances = if live == 1 { "instance" } else { "instances" };
    say!("{live} {instances}; the server remembers {}", span(report.oplog_window));
    Ok(Exit::DONE)
}

pub(crate) async fn locks(host: &Host, home: &Home) -> Result<Exit, AppError> {
    let report = ask(host, home).await?;
    if host.json {
        print_json(&report)?;
        return Ok(Exit::DONE);
    }
    let rows = report.lanes.iter().map(|lane| {
        let cells = [
            lane.lane.clone(),
            state(lane).to_owned(),
            lane.owner.clone().unwrap_or_default(),
            span(lane.lease_age),
            lane.fence.to_string(),
        ];
        cells.iter().map(|cell| plain(cell)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    say!("{}", table(&["listener", "state", "owner", "heartbeat", "fence"], &rows));
    say_refused(&report);
    Ok(Exit::DONE)
}
