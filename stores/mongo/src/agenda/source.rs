//! Agenda's rows as a source of work.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::{ClientOptions, IndexOptions};
use mongodb::{Client, Collection, Database, IndexModel};
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId, Kind};
use windlass_core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Source, Spent, StepWrite, WakeFn, WakeFns, Written,
};
use windlass_core::wake::{Registration, Work};

use super::check::{Finding, check};
use super::lease::Lease;
use super::{Options, codec};
use crate::error::failed;
use crate::server;

/// A collection of Agenda's that is worked beside Agenda's own workers.
pub struct AgendaRows {
    pub(super) database: Database,
    pub(super) rows: Collection<Document>,
    pub(super) leases: Collection<Lease>,
    pub(super) options: Options,
    pub(super) namespace: String,
    pub(super) prefix: [u8; 4],
    wakes: WakeFns,
}

impl AgendaRows {
    /// Gets ready to work a collection of the database that the URL names.
    pub async fn connect(url: &str, collection: &str, options: Options) -> Result<Arc<Self>, StoreError> {
        let settings = ClientOptions::parse(url).await.map_err(failed)?;
        let Some(database) = settings.default_database.clone() else {
            let why = "the URL names no database; write mongodb://HOST/DATABASE?replicaSet=NAME";
            return Err(StoreError::Schema(why.to_owned()));
        };
        let client = Client::with_options(settings).map_err(failed)?;
        Self::of(&client.database(&database), collection, options).await
    }

    /// Gets ready to work a collection. Makes a collection beside it for fences and leases, and changes nothing of
    /// the rows; [`AgendaRows::check`] says what they lack.
    pub async fn of(
        database: &Database,
        collection: &str,
        options: Options,
    ) -> Result<Arc<Self>, StoreError> {
        let options = options.checked()?;
        server::now(database).await?;
        let namespace = format!("{}.{collection}", database.name());
        let rows = server::collection(database, collection);
        let leases = server::collection(database, &format!("{collection}_windlass"));
        prepare(&leases).await.map_err(failed)?;
        let prefix = codec::prefix(&namespace);
        let (database, wakes) = (database.clone(), WakeFns::default());
        Ok(Arc::new(Self { database, rows, leases, options, namespace, prefix, wakes }))
    }

    /// What the collection lacks, in plain words. Changes nothing.
    pub async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        check(&self.rows, self.options.lock_lifetime_ms).await
    }

    /// The names of the jobs that a claim is for.
    pub(super) async fn names(&self, kinds: Option<&[Kind]>) -> Result<Vec<String>, StoreError> {
        let ours = self.options.names.as_deref();
        let names = match (kinds, ours) {
            (Some(kinds), Some(ours)) => kinds.iter().filter(|kind| ours.contains(kind)).collect(),
            (Some(some), None) | (None, Some(some)) => some.iter().collect::<Vec<_>>(),
            (None, None) => return self.all_names().await,
        };
        Ok(names.into_iter().map(Kind::to_string).collect())
    }

    /// All names that there are; one that cannot be a kind is left to Agenda.
    async fn all_names(&self) -> Result<Vec<String>, StoreError> {
        let names = self.rows.distinct("name", doc! {}).await.map_err(failed)?;
        let names = names.iter().filter_map(|name| name.as_str()).filter(|name| Kind::new(name).is_ok());
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) async fn now(&self) -> Result<DateTime, StoreError> {
        server::now(&self.database).await
    }

    pub(super) fn deadline(&self, now: DateTime) -> DateTime {
        DateTime::from_millis(now.timestamp_millis() - i64::from(self.options.lock_lifetime_ms))
    }
}

/// Leases are found by their claim, no two of them have one key, and the server deletes those that nobody needs any
/// more.
async fn prepare(leases: &Collection<Lease>) -> Result<(), mongodb::error::Error> {
    let by_request = IndexModel::builder().keys(doc! { "request": 1 }).build();
    let ends = IndexOptions::builder().expire_after(std::time::Duration::ZERO).build();
    let by_end = IndexModel::builder().keys(doc! { "expireAt": 1 }).options(ends).build();
    let alone = IndexOptions::builder()
        .unique(true)
        .partial_filter_expression(doc! { "key": { "$type": "object" } })
        .build();
    let by_key = IndexModel::builder().keys(doc! { "key": 1 }).options(alone).build();
    leases.create_indexes([by_request, by_end, by_key]).await?;
    Ok(())
}

#[async_trait]
impl Source for AgendaRows {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        windlass_core::book::claim::check(&request)?;
        self.claim_rows(&request).await
    }

    /// What Agenda calls touching.
    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        self.touch(&leases).await
    }

    /// A row that somebody else ended is lost, which a renewal tells.
    async fn cancels(&self, _leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        Ok(Vec::new())
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.keep_steps(&steps).await
    }

    /// As Agenda 6 and @hokify's do, in the row; the others leave it alone.
    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.show_progress(&reports).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let written = self.end(&settlements).await?;
        if !self.options.key.is_empty() {
            // The next row of a key may run now.
            let work = Work::in_queues([&self.options.queue]);
            self.wakes.all().iter().for_each(|wake| wake(&work));
        }
        Ok(written)
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.take_back().await
    }

    async fn spend(&self, _budget: BudgetName, _amount: u32) -> Result<Spent, StoreError> {
        Err(StoreError::Unsupported("keep budgets: Agenda has none"))
    }

    async fn cool_down(&self, _budget: BudgetName, _for_ms: u64) -> Result<(), StoreError> {
        Err(StoreError::Unsupported("keep budgets: Agenda has none"))
    }

    /// Nobody tells of new rows: workers find them by asking. Only of a key that was let go they are told.
    fn on_work(&self, wake: WakeFn) -> Registration {
        self.wakes.add(wake)
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    /// Claims of one program take other rows than each other, and meanwhile the others wait for a majority.
    fn capabilities(&self) -> Capabilities {
        Capabilities { tells: false, claims_at_once: 2, shares_commits: false }
    }
}
