//! A schedule to be set, with its options.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::ScheduleName;
use windlass_core::job::JobSpec;
use windlass_core::policy::schedule::{Missed, Overlap, SchedulePolicy};

use crate::client::Client;
use crate::request::JobRequest;

/// A schedule that is set when it is awaited. Setting one that is there changes
/// it; it goes on from where it is.
#[derive(Clone)]
pub struct ScheduleRequest<'c> {
    client: &'c Client,
    name: String,
    cron: Option<String>,
    zone: String,
    overlap: Overlap,
    missed: Missed,
    job: Option<Result<JobSpec, Invalid>>,
}

impl<'c> ScheduleRequest<'c> {
    pub(crate) fn new(client: &'c Client, name: &str) -> Self {
        Self {
            client,
            name: name.to_owned(),
            cron: None,
            zone: "UTC".to_owned(),
            overlap: Overlap::default(),
            missed: Missed::default(),
            job: None,
        }
    }

    /// When: five fields, or six with seconds in front.
    pub fn cron(mut self, cron: &str) -> Self {
        self.cron = Some(cron.to_owned());
        self
    }

    /// In which time zone, such as `Europe/Berlin`; UTC when nothing is said.
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = zone.to_owned();
        self
    }

    /// What happens when the job of an earlier run is not over yet.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What happens to runs that nobody was there to start.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What to enqueue.
    pub fn job<O>(mut self, job: impl Into<JobRequest<O>>) -> Self {
        self.job = Some(job.into().spec());
        self
    }

    fn build(self) -> Result<(ScheduleName, SchedulePolicy), Invalid> {
        let Self { client: _, name, cron, zone, overlap, missed, job } = self;
        let cron = cron.ok_or_else(|| Invalid::new("cron", "is missing: say when, such as `0 2 * * *`"))?;
        let job = job.ok_or_else(|| Invalid::new("job", "is missing: say what to enqueue"))??;
        let policy = SchedulePolicy { cron, zone, overlap, missed, paused: false, job };
        Ok((ScheduleName::new(name)?, policy.checked()?))
    }
}

impl<'c> IntoFuture for ScheduleRequest<'c> {
    type Output = Result<(), StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        let store = self.client.store().clone();
        Box::pin(async move {
            let (name, policy) = self.build()?;
            store.put_schedule(name, policy).await
        })
    }
}
