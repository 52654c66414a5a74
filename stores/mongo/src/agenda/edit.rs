//! Every write of a worker: rows and leases in one transaction, each compared with what the worker holds.

use std::collections::HashMap;

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_core::error::StoreError;
use windlass_core::store::{LeaseRef, Written};

use super::codec;
use super::lease::Lease;
use super::repeat::plus_ms;
use super::source::AgendaRows;
use crate::error::{failed, may_try_again};
use crate::server;

/// How often a transaction is tried that met another: each time somebody else's was done.
const TRIES_MAX: usize = 50;

/// A row that is held, and what is to become of it.
pub(super) struct Held {
    pub(super) lease: Lease,
    /// What of the row a write looks at.
    pub(super) row: Document,
    /// What is written into the row; the lock itself is set unless this says otherwise.
    pub(super) set: Document,
    changed: bool,
}

impl Held {
    /// Says what is written into the row. The lease is written as it is then.
    pub(super) fn write(&mut self, field: &str, value: impl Into<Bson>) {
        self.set.insert(field, value);
        self.changed = true;
    }

    /// It is only touched.
    pub(super) fn touch(&mut self) {
        self.changed = true;
    }
}

/// What a write may find of its lease.
pub(super) enum Found<'a> {
    /// It is held.
    Held(&'a mut Held),
    /// It was held with this fence, and was settled.
    Settled(&'a Lease),
    /// It is lost.
    Lost,
}

/// What a write does with what it found; `now` is the server's time.
pub(super) type Edit<'a> = dyn Fn(usize, Found<'_>, DateTime) -> Written + Send + Sync + 'a;

impl AgendaRows {
    /// Edits what these leases hold, all in one transaction, and answers in the order asked. Leases that were lost
    /// are noted as such, so that nobody takes them for crashes.
    pub(super) async fn edit(
        &self,
        leases: &[LeaseRef],
        edit: &Edit<'_>,
    ) -> Result<Vec<Written>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let now = self.now().await?;
            match self.edit_once(leases, edit, now).await {
                Ok(answers) => return Ok(answers),
                Err(error) if may_try_again(&error) => last = Some(error),
                Err(error) => return Err(failed(error)),
            }
        }
        let why = last.map(|error| failed(error).to_string()).unwrap_or_default();
        Err(StoreError::Busy(format!(
            "the rows of {} are written by too many at once: {why}",
            self.namespace
        )))
    }

    async fn edit_once(
        &self,
        leases: &[LeaseRef],
        edit: &Edit<'_>,
        now: DateTime,
    ) -> Result<Vec<Written>, Error> {
        let mut session = server::begin(&self.database).await?;
        let mut found = self.look(&mut session, leases).await?;
        let mut answers = Vec::with_capacity(leases.len());
        for (at, lease) in leases.iter().enumerate() {
            let state = codec::row_of(self.prefix, lease.job_id).and_then(|id| found.get_mut(&id));
            let state = state.filter(|state| state.held.lease.fence as u64 == lease.fence);
            answers.push(match state {
                Some(State { held, locked: true, .. }) if held.lease.held => edit(at, Found::Held(held), now),
                Some(State { held, .. }) if !held.lease.held => edit(at, Found::Settled(&held.lease), now),
                Some(State { held, .. }) => {
                    held.lease.held = false;
                    held.lease.key = None;
                    edit(at, Found::Lost, now)
                }
                None => edit(at, Found::Lost, now),
            });
        }
        self.save(&mut session, found, now).await?;
        // A commit whose answer was lost is made again by the driver, once; after that nobody knows, and the
        // caller asks again.
        session.commit_transaction().await?;
        Ok(answers)
    }

    /// The leases with their rows, as they are at one moment.
    async fn look(
        &self,
        session: &mut ClientSession,
        leases: &[LeaseRef],
    ) -> Result<HashMap<ObjectId, State>, Error> {
        let ids: Vec<ObjectId> =
            leases.iter().filter_map(|lease| codec::row_of(self.prefix, lease.job_id)).collect();
        let filter = doc! { "_id": { "$in": &ids } };
        let looked_at = doc! { "lockedAt": 1, "failCount": 1, "shouldSaveResult": 1 };
        let mut cursor = self.leases.find(filter.clone()).session(&mut *session).await?;
        let leases: Vec<Lease> = cursor.stream(session).try_collect().await?;
        let mut cursor = self.rows.find(filter).projection(looked_at).session(&mut *session).await?;
        let rows: Vec<Document> = cursor.stream(session).try_collect().await?;
        let mut rows: HashMap<ObjectId, Document> =
            rows.into_iter().filter_map(|row| Some((row.get_object_id("_id").ok()?, row))).collect();
        let state = |lease: Lease| {
            let (row, before) = (rows.remove(&lease.id).unwrap_or_default(), lease.clone());
            let locked = row.get_datetime("lockedAt").is_ok_and(|at| *at == lease.locked_at);
            (
                lease.id,
                State { held: Held { lease, row, set: Document::new(), changed: false }, locked, before },
            )
        };
        Ok(leases.into_iter().map(state).collect())
    }

    /// Writes what was edited. A row that is not as it was seen aborts the transaction, which is then made again.
    async fn save(
        &self,
        session: &mut ClientSession,
        found: HashMap<ObjectId, State>,
        now: DateTime,
    ) -> Result<(), Error> {
        let (mut rows, mut leases) = (Alike::default(), Alike::default());
        for State { held, locked, before } in found.into_values() {
            let Held { mut lease, set: mut row, changed, .. } = held;
            if changed {
                let was = lease.locked_at;
                if !row.contains_key("lockedAt") {
                    // The lock always moves, so that of two writes with the same lock one must fail.
                    lease.locked_at = now.max(plus_ms(was, 1));
                    row.insert("lockedAt", lease.locked_at);
                }
                rows.add(lease.id, doc! { "lockedAt": was }, row);
            }
            if changed || (!locked && lease.outcome.is_none() && !lease.held) {
                leases.add(lease.id, doc! { "fence": lease.fence }, lease.changed_since(&before)?);
            }
        }
        for (name, alike) in [(self.rows.name(), rows), (self.leases.name(), leases)] {
            let expected = alike.count();
            if expected > 0 {
                let statements = alike.statements();
                let updated = server::update(&self.database, name, statements, Some(&mut *session)).await?;
                if updated.matched != expected {
                    return Err(Error::custom(format!("{name}: {} of {expected} found", updated.matched)));
                }
            }
        }
        Ok(())
    }
}

/// A lease with its row, and whether the row has the lock that we wrote.
struct State {
    held: Held,
    locked: bool,
    /// The lease as it was.
    before: Lease,
}

/// Documents that are changed alike share a statement: what ends in one batch mostly began in one claim.
#[derive(Default)]
struct Alike(HashMap<String, (Document, Document, Vec<ObjectId>)>);

impl Alike {
    fn add(&mut self, id: ObjectId, guard: Document, set: Document) {
        let key = format!("{guard} {set}");
        self.0.entry(key).or_insert_with(|| (guard, set, Vec::new())).2.push(id);
    }

    fn count(&self) -> u64 {
        self.0.values().map(|(.., ids)| ids.len() as u64).sum()
    }

    fn statements(self) -> Vec<Document> {
        let statement = |(mut guard, set, ids): (Document, Document, Vec<ObjectId>)| {
            guard.insert("_id", doc! { "$in": ids });
            doc! { "q": guard, "u": { "$set": set }, "multi": true, "hint": { "_id": 1 } }
        };
        self.0.into_values().map(statement).collect()
    }
}
