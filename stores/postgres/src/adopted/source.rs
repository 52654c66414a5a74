//! A table that belongs to somebody else, as a source of work.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId};
use windlass_core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Source, Spent, StepWrite, WakeFn, Written,
};
use windlass_core::wake::Registration;

use super::asked::Asked;
use super::check::{Finding, column_types, findings};
use super::mapping::Mapping;
use super::marks::Marks;
use super::statements::{Statements, quote};
use super::watch::Watch;
use crate::connect::Connections;
use crate::error::Fault;
use crate::options::Options;
use crate::store::call;
use crate::wake::Wake;

/// A table that belongs to somebody else.
pub struct AdoptedTable {
    /// Nothing where a test has the time: it calls by itself.
    wake: Option<Wake>,
    /// Says that a row was given back.
    pub(super) given_back: Arc<Notify>,
    pub(super) connections: Connections,
    pub(super) mapping: Mapping,
    pub(super) statements: Statements,
    pub(super) asked: Asked,
    pub(super) marks: Marks,
}

impl AdoptedTable {
    /// Looks at the table and gets ready to work it. Refuses one that lacks a
    /// column that the mapping names; [`AdoptedTable::check`] says which.
    pub fn open(
        url: &str,
        options: Options,
        mapping: Mapping,
    ) -> BoxFuture<'_, Result<Arc<Self>, StoreError>> {
        Box::pin(Self::opened(url, options, mapping))
    }

    async fn opened(url: &str, options: Options, mapping: Mapping) -> Result<Arc<Self>, StoreError> {
        let mapping = mapping.checked()?;
        let connections = Connections::open(url, options).await?;
        let (types, found) = call!(connections, Self::look(&connections, &mapping))?;
        let broken: Vec<String> =
            found.iter().filter(|finding| !finding.only_slow).map(|finding| finding.what.clone()).collect();
        if !broken.is_empty() {
            return Err(StoreError::Schema(broken.join("; ")));
        }
        let statements = Statements::of(&mapping, &types);
        let given_back = Arc::new(Notify::new());
        let wake = Self::wake(&connections, &mapping, &statements, given_back.clone())?;
        let (asked, marks) = (Asked::default(), Marks::default());
        Ok(Arc::new(Self { wake, given_back, connections, mapping, statements, asked, marks }))
    }

    /// Calls when there is work: who inserts tells it on the channel, where there is one and it can be heard, and the table
    /// is looked at now and then.
    fn wake(
        connections: &Connections,
        mapping: &Mapping,
        statements: &Statements,
        given_back: Arc<Notify>,
    ) -> Result<Option<Wake>, StoreError> {
        if connections.given_now().is_some() {
            return Ok(None);
        }
        let listen = mapping.channel.as_ref().and_then(|channel| connections.listen(&quote(channel)));
        let watch = Watch::new(connections.lines(), mapping, statements, listen.is_some(), given_back);
        let wake = Wake::of_others(&connections.handle()?, listen, |callbacks, hearing| {
            watch.run(callbacks, hearing)
        });
        Ok(Some(wake))
    }

    /// What a table lacks for a mapping, in plain words, with the SQL that would
    /// add it. Changes nothing.
    pub fn check<'a>(
        url: &'a str,
        options: Options,
        mapping: &'a Mapping,
    ) -> BoxFuture<'a, Result<Vec<Finding>, StoreError>> {
        Box::pin(Self::checked(url, options, mapping))
    }

    async fn checked(url: &str, options: Options, mapping: &Mapping) -> Result<Vec<Finding>, StoreError> {
        let connections = Connections::open(url, options).await?;
        let (_, found) = call!(connections, Self::look(&connections, mapping))?;
        Ok(found)
    }

    async fn look(
        connections: &Connections,
        mapping: &Mapping,
    ) -> Result<(HashMap<String, String>, Vec<Finding>), Fault> {
        let link = connections.link().await?;
        let types = column_types(&link, &mapping.table).await?.unwrap_or_default();
        Ok((types, findings(&link, mapping).await?))
    }
}

#[async_trait]
impl Source for AdoptedTable {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        windlass_core::book::claim::check(&request)?;
        call!(self.connections, self.claim_once(&request))
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        call!(self.connections, self.renew_once(&leases))
    }

    /// A row that somebody else ended is lost, which a renewal tells.
    async fn cancels(&self, _leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        Ok(Vec::new())
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        call!(self.connections, self.store_steps_once(&steps))
    }

    async fn progress(&self, _reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        Err(StoreError::Unsupported("keep progress: the table has no place for it"))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        call!(self.connections, self.settle_once(&settlements))
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        call!(self.connections, self.expire_once())
    }

    async fn spend(&self, _budget: BudgetName, _amount: u32) -> Result<Spent, StoreError> {
        Err(StoreError::Unsupported("keep budgets"))
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        call!(self.connections, self.cool_down_once(&budget, for_ms))
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        match &self.wake {
            Some(heard) => heard.register(wake),
            None => Registration::none(),
        }
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    /// While the table is looked at, nobody needs to ask.
    fn capabilities(&self) -> Capabilities {
        let tells = self.wake.as_ref().is_some_and(Wake::listens);
        Capabilities { tells, claims_at_once: 1, shares_commits: false }
    }
}
