//! How a shop stands, for people and for programs.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use windlass_engine::core::event::What;
use windlass_engine::{Counts, Entry, FailureReason, JobRecord, ShelfError, State, Time};

use crate::book::{Run, Shelves, shop_prefix};
use crate::jobs::run_key;
use crate::ladder::GIVEN_UP;
use crate::listing::Standing;
use crate::shop::{Connection, Health, LastError, Shop, ShopId};
use crate::task::TaskKind;
use crate::tasks::{Tasks, kind_of};

/// How many shops' listings are counted at once.
const AT_ONCE: usize = 8;

/// What a shop is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    UpToDate,
    Queued,
    Downloading,
    Uploading,
    WaitingQuota,
    WaitingRetry,
    NeedsReconnect,
    Failed,
}

impl Doing {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UpToDate => "up_to_date",
            Self::Queued => "queued",
            Self::Downloading => "downloading",
            Self::Uploading => "uploading",
            Self::WaitingQuota => "waiting_quota",
            Self::WaitingRetry => "waiting_retry",
            Self::NeedsReconnect => "needs_reconnect",
            Self::Failed => "failed",
        }
    }
}

/// How a shop stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Which shop.
    pub shop_id: ShopId,
    /// Its name at Etsy.
    pub name: Option<String>,
    /// What it is doing.
    pub status: Doing,
    /// How many listings are still to be downloaded by the walk that is under way.
    pub to_download: u64,
    /// How many were downloaded by it, or by the last one.
    pub downloaded: u64,
    /// How many listings wait to be sent.
    pub to_upload: u64,
    /// How many were sent by the upload that is under way or was last.
    pub uploaded: u64,
    /// How many listings have changes that Etsy does not take.
    pub refused: u64,
    /// How many listings are gone at Etsy and have changes that were never sent.
    pub conflicts_deleted: u64,
    /// How many listings there are.
    pub listings: u64,
    /// Since when the task that is running runs.
    pub started_at: Option<Time>,
    /// Whose it is.
    pub worker: Option<String>,
    /// The last success of each kind.
    pub last_success_at: std::collections::BTreeMap<TaskKind, Time>,
    /// When something is tried next.
    pub next_attempt_at: Option<Time>,
    /// What last went wrong.
    pub last_error: Option<LastError>,
    /// How often it is downloaded.
    pub interval: String,
}

/// How a shop stands; nothing when there is none.
pub async fn of_shop(shelves: &Shelves, tasks: &Tasks, shop: ShopId) -> Result<Option<Status>, ShelfError> {
    let Some(found) = shelves.shops.get(shop).await? else { return Ok(None) };
    Ok(Some(of(shelves, tasks, found.value).await?))
}

/// How a shop stands that is at hand.
async fn of(shelves: &Shelves, tasks: &Tasks, shop: Shop) -> Result<Status, ShelfError> {
    let jobs = tasks.of_shop(shop.shop_id).await?;
    let jobs = HashMap::from([(shop.shop_id, jobs)]);
    let mut all = with_tasks(shelves, tasks, vec![shop], jobs).await?;
    // As many as were asked for.
    Ok(all.remove(0))
}

/// How shops stand that are at hand, in their order.
pub async fn of_many(shelves: &Shelves, tasks: &Tasks, shops: Vec<Shop>) -> Result<Vec<Status>, ShelfError> {
    let jobs = tasks.of_shops(shops.iter().map(|shop| shop.shop_id).collect()).await?;
    with_tasks(shelves, tasks, shops, jobs).await
}

async fn with_tasks(
    shelves: &Shelves,
    tasks: &Tasks,
    shops: Vec<Shop>,
    mut jobs: HashMap<ShopId, Vec<JobRecord>>,
) -> Result<Vec<Status>, ShelfError> {
    let ids: Vec<ShopId> = shops.iter().map(|shop| shop.shop_id).collect();
    let run_of = |kind: TaskKind| ids.iter().map(|id| run_key(*id, kind)).collect::<Vec<_>>();
    let health = values(shelves.health.get_many(ids.clone()).await?);
    let connections = values(shelves.connections.get_many(ids.clone()).await?);
    let downloads = values(shelves.runs.get_many(run_of(TaskKind::RegularDownload)).await?);
    let uploads = values(shelves.runs.get_many(run_of(TaskKind::UploadChanges)).await?);
    let counts = ids.into_iter().map(|id| counts(shelves, id));
    let counts: Vec<Counts> = futures::stream::iter(counts).buffered(AT_ONCE).try_collect().await?;
    let rest = health.into_iter().zip(connections).zip(downloads).zip(uploads).zip(counts);
    let all =
        shops.into_iter().zip(rest).map(|(shop, ((((health, connection), download), upload), counts))| {
            let (jobs, health) = (jobs.remove(&shop.shop_id).unwrap_or_default(), health.unwrap_or_default());
            Parts { shop, jobs, health, connection, download, upload, counts }.status(tasks)
        });
    Ok(all.collect())
}

async fn counts(shelves: &Shelves, shop: ShopId) -> Result<Counts, ShelfError> {
    shelves.listings.count(&shop_prefix(shop)).await
}

fn values<T>(entries: Vec<Option<Entry<T>>>) -> Vec<Option<T>> {
    entries.into_iter().map(|entry| entry.map(|entry| entry.value)).collect()
}

/// What is known of a shop.
struct Parts {
    shop: Shop,
    jobs: Vec<JobRecord>,
    health: Health,
    connection: Option<Connection>,
    download: Option<Run>,
    upload: Option<Run>,
    counts: Counts,
}

impl Parts {
    fn status(self, tasks: &Tasks) -> Status {
        let Self { shop, jobs, health, connection, download, upload, counts } = self;
        let of = |standing: Standing| counts.of(standing.as_str());
        let now = jobs.iter().find(|job| job.lease().is_some());
        let waiting = jobs.iter().filter(|job| job.state == State::Queued);
        Status {
            shop_id: shop.shop_id,
            name: shop.name,
            status: doing(&jobs, &health, connection.as_ref()),
            to_download: download.as_ref().map_or(0, Run::to_download),
            downloaded: download.as_ref().map_or(0, |run| run.done),
            to_upload: of(Standing::Dirty),
            uploaded: upload.as_ref().map_or(0, |run| run.uploaded),
            refused: of(Standing::Refused),
            conflicts_deleted: of(Standing::ConflictDeleted),
            listings: counts.total() - of(Standing::Deleted),
            started_at: now.and_then(|job| job.started_at),
            worker: now.and_then(|job| job.worker.as_ref()).map(ToString::to_string),
            last_success_at: health.last_success,
            next_attempt_at: waiting.map(|job| job.run_at).min(),
            last_error: health.last_error.or_else(|| last_error_of(&jobs)),
            interval: shop.interval.unwrap_or(tasks.settings().interval).to_string(),
        }
    }
}

/// What the tasks themselves have to say: one that crashed, or was ended by a panic, told nobody.
fn last_error_of(jobs: &[JobRecord]) -> Option<LastError> {
    let told = jobs.iter().filter_map(|job| {
        let lost = || (job.crashes > 0).then(|| "its worker was lost before it was done".to_owned());
        let message = job.last_error().map(str::to_owned).or_else(lost)?;
        let code = if job.last_error().is_some() { "task" } else { "worker_lost" }.to_owned();
        let at = job.history.last().map_or(job.created_at, |entry| entry.at);
        Some(LastError { code, message, listing_id: None, kind: kind_of(job)?, at })
    });
    told.max_by_key(|error| error.at)
}

fn doing(jobs: &[JobRecord], health: &Health, connection: Option<&Connection>) -> Doing {
    let running = jobs.iter().find(|job| job.lease().is_some()).and_then(kind_of);
    match running {
        Some(TaskKind::UploadChanges) => return Doing::Uploading,
        Some(TaskKind::RegularDownload | TaskKind::ForcedDownload) => return Doing::Downloading,
        None => {}
    }
    if connection.is_none_or(|connection| connection.lost.is_some()) {
        return Doing::NeedsReconnect;
    }
    let queued: Vec<&JobRecord> = jobs.iter().filter(|job| job.state == State::Queued).collect();
    if queued.iter().any(|job| job.history.is_empty()) {
        return Doing::Queued;
    }
    if let Some(job) = queued.iter().min_by_key(|job| job.run_at) {
        let last = job.history.last().map(|entry| entry.what);
        let code = health.last_error.as_ref().map(|error| error.code.as_str());
        return match (last, code) {
            (Some(What::Parked), Some("needs_reconnect" | "forbidden")) => Doing::NeedsReconnect,
            (Some(What::Parked), _) => Doing::WaitingQuota,
            (Some(What::Retrying), _) => Doing::WaitingRetry,
            _ => Doing::Queued,
        };
    }
    let is_unmended = |job: &&JobRecord| {
        let success = kind_of(job).and_then(|kind| health.last_success.get(&kind));
        matches!(job.state, State::Failed { ended_at, .. } if success.is_none_or(|success| *success < ended_at))
    };
    if jobs.iter().any(|job| is_unmended(&job)) { Doing::Failed } else { Doing::UpToDate }
}

/// A task as people see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its shop.
    pub shop_id: Option<ShopId>,
    /// In which state it is.
    pub state: String,
    /// Why it failed, if it has.
    pub reason: Option<&'static str>,
    /// Who works on it, or did last.
    pub worker: Option<String>,
    /// Since when it is in this state.
    pub since: Time,
    /// Which attempt it is.
    pub attempt: u32,
    /// When it is tried next.
    pub next_attempt: Option<Time>,
    /// How far its worker says it is.
    pub progress: Option<serde_json::Value>,
    /// What last went wrong.
    pub error: Option<String>,
}

impl TaskView {
    /// A task as people see it.
    pub fn of(job: &JobRecord) -> Self {
        let (since, reason) = match &job.state {
            State::Queued => (job.history.last().map_or(job.created_at, |entry| entry.at), None),
            State::Running(lease) => (lease.started_at, None),
            State::Completed { ended_at, .. } | State::Canceled { ended_at } => (*ended_at, None),
            State::Failed { ended_at, reason } => (*ended_at, Some(*reason)),
        };
        let error = job.last_error();
        // The rungs are Vela's own: that there is none left is said by the error.
        let is_given_up = error.is_some_and(|error| error.starts_with(GIVEN_UP));
        let reason = reason.map(|reason| match reason {
            FailureReason::Permanent if is_given_up => FailureReason::Exhausted.as_str(),
            reason => reason.as_str(),
        });
        Self {
            id: job.id.to_string(),
            kind: job.spec.kind.to_string(),
            shop_id: crate::tasks::shop_of(job),
            state: job.state.name().to_string(),
            reason,
            worker: job.worker.as_ref().map(ToString::to_string),
            since,
            attempt: job.attempt,
            next_attempt: (job.state == State::Queued).then_some(job.run_at),
            progress: job.progress.as_ref().and_then(|progress| progress.read().ok()),
            error: error.map(str::to_owned),
        }
    }
}
