//! Which jobs: the options that all verbs for jobs share.

use clap::Args;
use windlass_engine::core::id::{Key, Kind, QueueName};
use windlass_engine::core::query::JobFilter;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::{Span, Time};
use windlass_report::search::Wanted;

/// Everything that is said must hold.
#[derive(Debug, Clone, Args)]
pub struct FilterArgs {
    /// In one of these states: queued, running, completed, failed, canceled
    #[arg(long, value_delimiter = ',', value_name = "STATE")]
    pub state: Vec<StateName>,
    /// In this queue
    #[arg(long, add = crate::names::queues())]
    pub queue: Option<QueueName>,
    /// Of this kind
    #[arg(long, add = crate::names::kinds())]
    pub kind: Option<Kind>,
    /// With this key
    #[arg(long)]
    pub key: Option<Key>,
    /// Accepted at or after this moment, or within this time: 2026-01-31T12:00:00Z or 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<Moment>,
    /// Accepted before this moment, or longer ago than this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
    /// With this text in its id, kind, key or payload
    #[arg(long)]
    pub text: Option<String>,
    /// Whose newest error says this: a part of it, or a group of failures as the dashboard shows it
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
}

/// A moment, or how long ago it was.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    At(Time),
    Ago(Span),
}

impl std::str::FromStr for Moment {
    type Err = windlass_engine::core::error::Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::Ago).or_else(|_| text.parse().map(Self::At))
    }
}

impl Moment {
    fn resolve(self, now: Time) -> Time {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.plus_ms(-i64::try_from(span.ms()).unwrap_or(i64::MAX)),
        }
    }
}

impl FilterArgs {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        let Self { state, queue, kind, key, since, until, text, error } = self;
        state.is_empty()
            && queue.is_none()
            && kind.is_none()
            && key.is_none()
            && since.is_none()
            && until.is_none()
            && text.is_none()
            && error.is_none()
    }

    /// The filter, with times by the store's clock.
    pub async fn resolve(&self, store: &dyn Store) -> anyhow::Result<Wanted> {
        let now = store.now().await?;
        let filter = JobFilter {
            states: self.state.clone(),
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            key: self.key.clone(),
            since: self.since.map(|moment| moment.resolve(now)),
            until: self.until.map(|moment| moment.resolve(now)),
            text: self.text.clone(),
        };
        Ok(Wanted { filter: filter.checked()?, error: self.error.clone() })
    }
}
