//! How listeners do: for the verb `status`, the page, `/healthz` and `/metrics`.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use serde::Serialize;

use crate::context::Context;
use crate::event::id_text;
use crate::home::{Home, number};
use crate::lane::{Following, LaneId};
use crate::listener::{Listener, databases, refused};
use crate::metrics::{get, plain};

/// How long a stream may be silent: an idle one tells its position twice a second.
const SILENT_MS_MAX: u64 = 15_000;

/// A lane, as the database knows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LaneReport {
    pub(crate) listener: String,
    pub(crate) lane: String,
    /// Empty when the listener names none, and is refused for it.
    pub(crate) collection: String,
    /// Nothing when the listener names them in a way that cannot be understood.
    pub(crate) databases: Option<String>,
    pub(crate) job_name: String,
    pub(crate) is_active: bool,
    pub(crate) owner: Option<String>,
    /// Seconds since the owner was heard of.
    pub(crate) lease_age: Option<f64>,
    pub(crate) is_stale: bool,
    pub(crate) fence: i64,
    /// Seconds from the position to now.
    pub(crate) lag: Option<f64>,
    /// When the position was written.
    pub(crate) position_age: Option<f64>,
    pub(crate) open_gaps: u64,
    pub(crate) dead_letters: u64,
    pub(crate) waiting: u64,
    /// Jobs per second of late, as the owner wrote it down.
    pub(crate) rate: Option<f64>,
    /// Errors since its owner has it, and the last of them.
    pub(crate) errors: i64,
    pub(crate) last_error: Option<String>,
    /// Why it cannot be understood.
    pub(crate) problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<Live>,
}

/// What the instance knows that was asked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Live {
    pub(crate) following: Following,
    pub(crate) events: u64,
    pub(crate) jobs: u64,
    pub(crate) dead: u64,
    pub(crate) errors: u64,
    pub(crate) last_error: Option<String>,
}

/// How everything does.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) now: String,
    /// Seconds that the server remembers.
    pub(crate) oplog_window: Option<f64>,
    pub(crate) instances: Vec<InstanceReport>,
    pub(crate) lanes: Vec<LaneReport>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct InstanceReport {
    pub(crate) id: String,
    pub(crate) lanes: i64,
    pub(crate) age: f64,
    pub(crate) is_live: bool,
}

fn seconds(now: DateTime, then: DateTime) -> f64 {
    ((now.timestamp_millis() - then.timestamp_millis()) as f64 / 1_000.0).max(0.0)
}

/// Counts of a collection by listener.
async fn counts(
    documents: &mongodb::Collection<Document>,
    state: &str,
) -> Result<BTreeMap<String, u64>, Error> {
    let stages = vec![
        doc! { "$match": { "state": state } },
        doc! { "$group": { "_id": "$listener", "count": { "$sum": 1_i64 } } },
    ];
    let mut found = documents.aggregate(stages).await?;
    let mut counts = BTreeMap::new();
    while let Some(count) = found.try_next().await? {
        counts.insert(
            count.get("_id").map(id_text).unwrap_or_default(),
            u64::try_from(number(&count, "count")).unwrap_or(0),
        );
    }
    Ok(counts)
}

async fn by_text(documents: &mongodb::Collection<Document>) -> Result<BTreeMap<String, Document>, Error> {
    let mut found = documents.find(doc! {}).projection(doc! { "applied": 0 }).await?;
    let mut all = BTreeMap::new();
    while let Some(document) = found.try_next().await? {
        all.insert(document.get("_id").map(id_text).unwrap_or_default(), document);
    }
    Ok(all)
}

/// Asks the database.
pub(crate) async fn report(home: &Home, lock_s: f64) -> Result<Report, Error> {
    home.hello().await?;
    let now = home.now();
    let (positions, seats) = (by_text(&home.positions).await?, by_text(&home.partitions).await?);
    let (gaps, dead, waiting) = (
        counts(&home.gaps, "open").await?,
        counts(&home.dead, "dead").await?,
        counts(&home.dead, "waiting").await?,
    );
    let mut lanes = Vec::new();
    let documents: Vec<Document> =
        home.listeners.find(doc! {}).sort(doc! { "_id": 1 }).await?.try_collect().await?;
    let refused = refused(&documents, &home.database, &home.own_names());
    for document in &documents {
        let id = document.get("_id").map(id_text).unwrap_or_default();
        let read = Listener::read(document);
        let parts = read.as_ref().map_or_else(
            |_| vec![LaneId { listener: document.get("_id").cloned().unwrap_or(Bson::Null), part: None }],
            LaneId::of,
        );
        for part in parts {
            let seat = if part.part.is_some() { seats.get(&part.text()) } else { Some(document) };
            let lock = seat.and_then(|seat| seat.get_document("lockInfo").ok());
            let position = positions.get(&part.text());
            let age =
                lock.and_then(|lock| lock.get_datetime("lastHeartbeat").ok()).map(|beat| seconds(now, *beat));
            let time = position.and_then(|position| position.get_timestamp("clusterTime").ok());
            let did = position.and_then(|position| position.get_document("did").ok());
            let position_age =
                position.and_then(|position| position.get_datetime("at").ok()).map(|at| seconds(now, *at));
            lanes.push(LaneReport {
                listener: id.clone(),
                lane: part.text(),
                collection: document.get_str("collection").unwrap_or_default().to_owned(),
                databases: databases(document),
                job_name: document.get_str("jobName").unwrap_or_default().to_owned(),
                is_active: document.get_bool("isActive").unwrap_or(true),
                owner: lock.and_then(|lock| lock.get_str("instanceId").ok()).map(str::to_owned),
                is_stale: age.is_some_and(|age| age > lock_s),
                lease_age: age,
                fence: position.map_or(0, |position| number(position, "fence")),
                // What its owner said of it, and how long ago; before it has said anything, by the position alone.
                lag: did
                    .and_then(|did| Some(did.get_f64("lag").ok()? + position_age?))
                    .or(time.map(|time| seconds(now, DateTime::from_millis(i64::from(time.time) * 1_000)))),
                position_age,
                open_gaps: gaps.get(&id).copied().unwrap_or(0),
                dead_letters: dead.get(&id).copied().unwrap_or(0),
                waiting: waiting.get(&id).copied().unwrap_or(0),
                rate: did.and_then(|did| did.get_f64("rate").ok()),
                errors: did.map_or(0, |did| number(did, "errors")),
                last_error: did.and_then(|did| did.get_str("lastError").ok()).map(str::to_owned),
                problem: refused.get(&id).cloned(),
                live: None,
            });
        }
    }
    let mut instances = Vec::new();
    for (id, instance) in by_text(&home.instances).await? {
        let age = instance.get_datetime("lastSeen").map_or(f64::MAX, |seen| seconds(now, *seen));
        instances.push(InstanceReport { id, lanes: number(&instance, "lanes"), age, is_live: age <= lock_s });
    }
    let oldest = home.oldest().await.ok().flatten();
    let oplog_window =
        oldest.map(|oldest| seconds(now, DateTime::from_millis(i64::from(oldest.time) * 1_000)));
    Ok(Report { now: now.try_to_rfc3339_string().unwrap_or_default(), oplog_window, instances, lanes })
}

/// The same, with what this instance knows.
pub(crate) async fn live(context: &Context) -> Result<Report, Error> {
    let mut report = report(&context.home, context.work.lock.as_secs_f64()).await?;
    for lane in &mut report.lanes {
        let Some(handle) = context.registry.get(&lane.lane) else { continue };
        let seen = handle.seen();
        lane.lag = Some(seen.lag(context.home.now(), context.home.world.boot_ms()));
        lane.live = Some(Live {
            following: seen.following,
            events: get(&handle.events),
            jobs: get(&handle.jobs),
            dead: get(&handle.dead),
            errors: get(&handle.errors),
            last_error: seen.last_error,
        });
    }
    Ok(report)
}

/// What is wrong with this instance; nothing when all is well.
pub(crate) fn problems(context: &Context) -> Vec<String> {
    let now = context.home.world.boot_ms();
    let mut wrong = Vec::new();
    let silent = now.saturating_sub(get(&context.heard_boot_ms));
    if silent > SILENT_MS_MAX {
        wrong.push(format!("the position of the stream has not moved for {} s", silent / 1_000));
    }
    let listed = now.saturating_sub(get(&context.listed_boot_ms));
    if listed > 2 * context.work.claim.as_millis() as u64 + SILENT_MS_MAX {
        wrong.push(format!("the listeners could not be looked at for {} s", listed / 1_000));
    }
    if !context.holds() {
        wrong
            .push("no heartbeat has arrived for the length of a lease, so that locks may be lost".to_owned());
    }
    wrong
}

/// What an operator should know of, and what no restart would mend: so it makes nobody unhealthy.
pub(crate) fn warnings(context: &Context) -> Vec<String> {
    let mut warnings = Vec::new();
    match get(&context.metrics.open_gaps) {
        0 => {}
        gaps => warnings.push(format!(
            "history was lost, and what it may have held is being looked for (open gaps: {gaps}); \
             `windlass listener gaps` shows them"
        )),
    }
    let refused = context.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for handle in context.registry.all() {
        let seen = handle.seen();
        // An edit that the next look at all listeners has yet to come to.
        if seen.following == Following::Refused && !refused.contains_key(&id_text(&handle.id.listener)) {
            let why = seen.last_error.unwrap_or_default();
            warnings.push(format!("listener {} is refused: {why}", handle.name));
        }
    }
    warnings.extend(refused.iter().map(|(id, why)| format!("listener {id} is refused: {why}")));
    warnings
}

/// Lines of the moment, for `/metrics`.
pub(crate) fn gauges(context: &Context) -> Vec<(&'static str, &'static str, String, f64)> {
    let now = context.home.world.boot_ms();
    let ago = |then: u64| now.saturating_sub(then) as f64 / 1_000.0;
    let mut lines = vec![
        (
            "lanes",
            "listeners, or parts of them, that this instance has",
            String::new(),
            context.registry.len() as f64,
        ),
        (
            "open_gaps",
            "losses of history that nobody has looked through yet",
            String::new(),
            get(&context.metrics.open_gaps) as f64,
        ),
        (
            "heartbeat_age_seconds",
            "since the last heartbeat arrived",
            String::new(),
            ago(get(&context.metrics.heartbeat_boot_ms)),
        ),
        (
            "heartbeat_late_seconds",
            "how late the last heartbeat began",
            String::new(),
            get(&context.metrics.heartbeat_late_ms) as f64 / 1_000.0,
        ),
        (
            "stream_silent_seconds",
            "since the shared stream told its position",
            String::new(),
            ago(get(&context.heard_boot_ms)),
        ),
    ];
    let lanes = context.registry.all();
    for handle in &lanes {
        let lag = handle.seen().lag(context.home.now(), now);
        lines.push((
            "lag_seconds",
            "how far a listener is behind",
            format!("{{listener=\"{}\"}}", plain(&handle.id.text())),
            lag,
        ));
    }
    for handle in &lanes {
        lines.push((
            "listener_jobs",
            "rows that this instance has written for a listener",
            format!("{{listener=\"{}\"}}", plain(&handle.id.text())),
            get(&handle.jobs) as f64,
        ));
    }
    lines
}
