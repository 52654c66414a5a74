//! Claiming rows by Agenda's own rule, many at once.
//!
//! Rows that are due are looked for, then taken by an update that asks again whether each is free and writes the
//! claim's own mark (`lastModifiedBy`) into those that are; what has that mark was taken by this claim and by nobody
//! else, since an update of a document is atomic and a row that is locked is not free. Then the leases are written,
//! each over an older one only.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use windlass_core::error::StoreError;
use windlass_core::job::bounded_error;
use windlass_core::store::{CLAIM_BYTES_MAX, ClaimAnswer, ClaimRequest, LeaseRef, Leased, Settlement};
use windlass_core::transition::Outcome;

use super::codec;
use super::key::{Apart, key_of};
use super::lease::{KEPT_MS, Lease};
use super::repeat::{Next, next, plus_ms, repeats};
use super::source::AgendaRows;
use crate::error::failed;
use crate::server::{self, Stumble};

/// Why a row that its workers do not survive is failed.
const QUARANTINED: &str = "quarantined: its worker crashed, was cut off or stood still each time it ran";

/// How often a claim looks for rows whose keys nobody holds.
const LOOKS_MAX: usize = 20;

/// What a row must have to be looked at before it is taken.
const LOOKED_AT: [&str; 9] = [
    "nextRunAt",
    "repeatInterval",
    "repeatTimezone",
    "repeatAt",
    "startDate",
    "endDate",
    "skipDays",
    "debounceStartedAt",
    "failCount",
];

impl AgendaRows {
    pub(super) async fn claim_rows(&self, request: &ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        if !request.queues.contains(&self.options.queue) || request.limit == 0 {
            return Ok(ClaimAnswer::default());
        }
        if let Some(before) = self.given_before(request).await? {
            return Ok(before);
        }
        let names = self.names(request.kinds.as_deref()).await?;
        if names.is_empty() {
            return Ok(ClaimAnswer::default());
        }
        let now = self.now().await?;
        let due = self.due(&names, now, request.limit).await.map_err(failed)?;
        let mut leases = Vec::new();
        if !due.is_empty() {
            let mark = format!("{}#{}", request.worker, request.request_id.simple());
            self.take(&names, &due, now, &mark).await.map_err(failed)?;
            leases = self.leased(request, &due, &mark).await?;
        }
        let next_due_in_ms = match leases.len() < request.limit as usize {
            true => self.next_due(&names, now).await.map_err(failed)?,
            false => None,
        };
        Ok(ClaimAnswer { leases, next_due_in_ms, instance: None })
    }

    /// What the same request was given, as far as it still holds it.
    async fn given_before(&self, request: &ClaimRequest) -> Result<Option<ClaimAnswer>, StoreError> {
        let filter = doc! { "request": request.request_id.simple().to_string() };
        let cursor = self.leases.find(filter).await.map_err(failed)?;
        let leases: Vec<Lease> = cursor.try_collect().await.map_err(failed)?;
        let Some(first) = leases.first() else { return Ok(None) };
        if first.asked != request.asked() {
            return Err(StoreError::RequestTaken(request.request_id));
        }
        let mut rows = self.rows_of(leases.iter().map(|lease| lease.id)).await.map_err(failed)?;
        let mut given = Vec::new();
        for lease in leases.iter().filter(|lease| lease.held) {
            let row = rows
                .remove(&lease.id)
                .filter(|row| row.get_datetime("lockedAt").is_ok_and(|at| *at == lease.locked_at));
            if let Some(row) = row {
                given.extend(self.give(&row, lease, request).await?);
            }
        }
        Ok(Some(ClaimAnswer { leases: given, next_due_in_ms: None, instance: None }))
    }

    /// Rows that are due and free, in Agenda's order, as many as one claim may carry: of those with one key the first.
    async fn due(
        &self,
        names: &[String],
        now: DateTime,
        limit: u32,
    ) -> Result<Vec<Document>, mongodb::error::Error> {
        let mut apart = Apart::new(&self.options.key);
        let mut due = Vec::new();
        for _ in 0..LOOKS_MAX {
            let found = self.look_for(apart.leave_out(free(names, now)), limit).await?;
            let is_all = found.len() < limit as usize;
            if apart.is_needed() {
                // Behind the look: a row that was seen while the one before it was locked must not overtake that.
                apart.add_held(self.locked_keys(now).await?);
            }
            due.extend(found.into_iter().filter(|row| apart.takes(row)));
            if is_all || due.len() >= limit as usize || !apart.is_needed() {
                break;
            }
        }
        let mut bytes = 0;
        let fits = |row: &Document| {
            bytes += row.get_i32("bytes").unwrap_or_default() as usize;
            bytes <= CLAIM_BYTES_MAX
        };
        let fitting = due.iter().take(limit as usize).map(fits).take_while(|fits| *fits).count().max(1);
        due.truncate(fitting);
        Ok(due)
    }

    /// The first rows that pass a filter, in Agenda's order, as much of them as must be known to take them.
    async fn look_for(&self, filter: Document, limit: u32) -> Result<Vec<Document>, mongodb::error::Error> {
        let fields = LOOKED_AT.iter().copied().chain(self.options.key.iter().map(String::as_str));
        let mut looked_at: Document = fields.map(|field| (field.to_owned(), Bson::Int32(1))).collect();
        looked_at.insert("bytes", doc! { "$bsonSize": "$$ROOT" });
        let found = self
            .rows
            .find(filter)
            .sort(doc! { "nextRunAt": 1, "priority": -1 })
            .limit(i64::from(limit))
            .projection(looked_at)
            .await?;
        found.try_collect().await
    }

    /// Takes those that are still free, as Agenda does when a run starts: locked, with the moment of the run and of
    /// the next.
    async fn take(
        &self,
        names: &[String],
        due: &[Document],
        now: DateTime,
        mark: &str,
    ) -> Result<(), mongodb::error::Error> {
        let (again, once): (Vec<&Document>, Vec<&Document>) = due.iter().partition(|row| repeats(row));
        let ids: Vec<ObjectId> = once.iter().filter_map(|row| row.get_object_id("_id").ok()).collect();
        let mut filter = free(names, now);
        filter.insert("_id", doc! { "$in": ids });
        let mut statements = vec![
            doc! { "q": filter, "u": [doc! { "$set": taken(mark, Bson::Null) }], "multi": true, "hint": { "_id": 1 } },
        ];
        for row in again {
            let mut filter = free(names, now);
            for field in ["_id", "nextRunAt", "repeatInterval", "repeatAt"] {
                // What the next run was computed from must not have changed meanwhile.
                filter.insert(field, row.get(field).cloned().unwrap_or(Bson::Null));
            }
            let set = match next(row, now, &self.options.zone) {
                Next::Never => taken(mark, Bson::Null),
                Next::At(at) => taken(mark, Bson::DateTime(at)),
                Next::Unreadable(why) => unreadable(taken(mark, Bson::Null), &why),
            };
            statements.push(doc! { "q": filter, "u": [doc! { "$set": set }] });
        }
        server::update(&self.database, self.rows.name(), statements, None).await?;
        Ok(())
    }

    /// The rows that this claim has taken, with their leases, in the order in which they should start.
    async fn leased(
        &self,
        request: &ClaimRequest,
        due: &[Document],
        mark: &str,
    ) -> Result<Vec<Leased>, StoreError> {
        let ids: Vec<ObjectId> = due.iter().filter_map(|row| row.get_object_id("_id").ok()).collect();
        let taken = async {
            let filter = doc! { "_id": { "$in": &ids }, "lastModifiedBy": mark };
            self.rows.find(filter).await?.try_collect::<Vec<Document>>().await
        };
        let before = async {
            let found = self.leases.find(doc! { "_id": { "$in": &ids } }).await?;
            found.try_collect::<Vec<Lease>>().await
        };
        let (taken, before) = futures::try_join!(taken, before).map_err(failed)?;
        let before: HashMap<ObjectId, Lease> = before.into_iter().map(|lease| (lease.id, lease)).collect();
        let mut rows: HashMap<ObjectId, Document> =
            taken.into_iter().filter_map(|row| Some((row.get_object_id("_id").ok()?, row))).collect();
        let lease = |row: &Document| {
            let id = row.get_object_id("_id").ok()?;
            let locked_at = *rows.get(&id)?.get_datetime("lockedAt").ok()?;
            let due_at = row.get_datetime("nextRunAt").ok().copied();
            let key = key_of(rows.get(&id)?, &self.options.key);
            Some(Lease { key, ..fresh(request, id, locked_at, due_at, before.get(&id)) })
        };
        let leases: Vec<Lease> = due.iter().filter_map(lease).collect();
        let refused = self.write_leases(&leases, mark).await?;
        let mut given = Vec::with_capacity(leases.len());
        for (at, lease) in leases.iter().enumerate() {
            if let Some(row) = rows.remove(&lease.id).filter(|_| !refused.contains(&at)) {
                given.extend(self.give(&row, lease, request).await?);
            }
        }
        Ok(given)
    }

    /// Writes leases. Answers which were not. Where there is one with a newer lock we were so slow that the row was taken
    /// back and taken again; where another row of the same key is held, the row is given back.
    async fn write_leases(&self, leases: &[Lease], mark: &str) -> Result<HashSet<usize>, StoreError> {
        let statements = leases.iter().map(Lease::claimed).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let updated =
            server::update(&self.database, self.leases.name(), statements, None).await.map_err(failed)?;
        let by_key = |stumble: &&Stumble| stumble.index.as_deref() == Some("key");
        let met: Vec<&Lease> =
            updated.errors.iter().filter(by_key).map(|stumble| &leases[stumble.at]).collect();
        if !met.is_empty() {
            self.step_back(&met, mark).await.map_err(failed)?;
        }
        Ok(updated.errors.into_iter().map(|stumble| stumble.at).collect())
    }

    /// A row as a job; one that cannot be a job, or that nobody survives, is failed instead, so that it does not
    /// stand in the way.
    async fn give(
        &self,
        row: &Document,
        lease: &Lease,
        request: &ClaimRequest,
    ) -> Result<Option<Leased>, StoreError> {
        let refused = match codec::job(row, lease, &self.namespace, &request.worker, &self.options) {
            Ok(_) if lease.crashes >= self.options.crashes_max as i32 => QUARANTINED.to_owned(),
            Ok(job) => {
                let retry_delay_ms = self.options.retry.delay_ms(job.attempt);
                return Ok(Some(Leased { job, retry_delay_ms, ticket: None }));
            }
            Err(refused) => refused.to_string(),
        };
        tracing::warn!(collection = self.namespace, row = %lease.id, refused, "a row was failed: it cannot be run");
        let job_id = codec::job_id(self.prefix, lease.id);
        let lease = LeaseRef::new(job_id, lease.fence as u64);
        self.end(&[Settlement { lease, outcome: Outcome::Failed { error: refused } }]).await?;
        Ok(None)
    }

    /// In how many milliseconds the next row is due.
    async fn next_due(&self, names: &[String], now: DateTime) -> Result<Option<u64>, mongodb::error::Error> {
        let mut filter = free(names, now);
        filter.insert("nextRunAt", doc! { "$gt": now });
        let next = self
            .rows
            .find_one(filter)
            .sort(doc! { "nextRunAt": 1 })
            .projection(doc! { "nextRunAt": 1 })
            .await?;
        let at = next.and_then(|row| row.get_datetime("nextRunAt").ok().copied());
        Ok(at.map(|at| at.timestamp_millis().abs_diff(now.timestamp_millis())))
    }

    pub(super) async fn rows_of(
        &self,
        ids: impl Iterator<Item = ObjectId>,
    ) -> Result<HashMap<ObjectId, Document>, mongodb::error::Error> {
        let ids: Vec<ObjectId> = ids.collect();
        let rows: Vec<Document> = self.rows.find(doc! { "_id": { "$in": ids } }).await?.try_collect().await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.get_object_id("_id").ok()?, row))).collect())
    }
}

/// What Agenda calls free and due. (Its other half, locks that have run out, is what `expire` takes back.) Ids of
/// other types are left to Agenda 4 and 5: a job's id could not hold them.
fn free(names: &[String], now: DateTime) -> Document {
    doc! {
        "name": { "$in": names },
        "nextRunAt": { "$lte": now },
        "lockedAt": Bson::Null,
        "disabled": { "$ne": true },
        "_id": { "$type": "objectId" },
    }
}

/// What the start of a run writes.
fn taken(mark: &str, next_run_at: Bson) -> Document {
    doc! {
        "lockedAt": "$$NOW",
        "lastRunAt": "$$NOW",
        "nextRunAt": next_run_at,
        "lastModifiedBy": { "$literal": mark },
    }
}

/// A row that nobody knows when to run again has failed with that, and runs all the same.
fn unreadable(mut set: Document, why: &str) -> Document {
    set.insert("failReason", doc! { "$literal": bounded_error(why) });
    set.insert("failCount", doc! { "$add": [{ "$ifNull": ["$failCount", 0] }, 1] });
    set.insert("failedAt", "$$NOW");
    set.insert("lastFinishedAt", "$$NOW");
    set
}

/// The lease of a row that was just taken. What was held until now was never settled: that was a crash.
fn fresh(
    request: &ClaimRequest,
    id: ObjectId,
    locked_at: DateTime,
    due_at: Option<DateTime>,
    before: Option<&Lease>,
) -> Lease {
    let (attempt, crashes, steps) = match before.filter(|before| !before.over) {
        Some(before) => (before.attempt, before.crashes + i32::from(before.held), before.steps.clone()),
        None => (0, 0, Vec::new()),
    };
    Lease {
        id,
        fence: locked_at.timestamp_millis(),
        locked_at,
        held: true,
        outcome: None,
        over: false,
        worker: request.worker.to_string(),
        request: request.request_id.simple().to_string(),
        asked: request.asked(),
        due_at,
        attempt: attempt.saturating_add(1),
        crashes,
        steps,
        key: None,
        expire_at: plus_ms(locked_at, KEPT_MS),
    }
}
