//! The publisher: documents that have changed go to Workers KV, in bulk and within a day's writes.
//!
//! What was published is remembered in the store as a digest for each key, so nothing is ever read from
//! Workers KV to decide what to write: it may answer with what was there a minute ago.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_engine::core::store::{Spent, Store};
use windlass_engine::{BudgetName, Context, Entry, Failure};
use windlass_outside::workers_kv::{Batch, CloudflareError, Pair, WorkersKv};

use crate::archive::{Archive, Published};
use crate::article::{Article, State};
use crate::documents::{ARTICLE, CHECKPOINT, Documents, INDEX, PENDING};
use crate::jobs::KV_BUDGET;

/// How long Workers KV is left alone when the day's writes are used up and it does not say for how long.
const QUOTA_REST: Duration = Duration::from_secs(3_600);
/// How often one key is written or deleted before that counts as failed.
const CALL_TRIES_MAX: u32 = 3;
/// How many records one commit of ours carries.
const COMMIT_MAX: usize = 500;

/// Under which key the writes are kept that are under way.
const UNDER_WAY: &str = "writes";

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PublishReport {
    /// Keys that were written.
    pub written: u64,
    /// Keys that were deleted.
    pub deleted: u64,
    /// Keys that have changed and are left for later, for want of writes.
    pub left: u64,
}

/// What the publisher works with.
#[derive(Clone)]
pub struct Publisher {
    /// Where everything is kept.
    pub archive: Archive,
    /// Where it is published.
    pub kv: WorkersKv,
    /// How many keys are written in 24 hours.
    pub writes_per_day: u32,
}

/// The handler of [`crate::jobs::Publish`].
pub async fn publish(publisher: Arc<Publisher>, ctx: Context) -> Result<PublishReport, Failure> {
    match publisher.run().await {
        Ok(report) => {
            let PublishReport { written, deleted, left } = report;
            if written + deleted + left > 0 {
                tracing::info!(written, deleted, left, "Published to Workers KV");
            }
            Ok(report)
        }
        Err(PublishError::Store(failure)) => Err(failure),
        Err(PublishError::Kv(error)) => {
            let now_ms =
                u64::try_from(publisher.archive.client.store().now().await?.ms()).unwrap_or_default();
            let asked = error.retry_after().map(|after| after.delay(now_ms));
            let is_quota = matches!(error, CloudflareError::Quota { .. });
            if let Some(rest) = asked.or(is_quota.then_some(QUOTA_REST)) {
                ctx.cool_down(KV_BUDGET, rest).await?;
            }
            tracing::warn!(code = error.code(), reason = %error, "Not published; the next run tries again");
            Err(Failure::permanent(error))
        }
    }
}

/// Why nothing more was published.
#[derive(Debug)]
pub enum PublishError {
    /// Our own store.
    Store(Failure),
    /// Workers KV.
    Kv(CloudflareError),
}

impl<E: Into<Failure>> From<E> for PublishError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// What became of a batch.
struct Sent {
    /// The keys that were not written, as far as we know.
    failed: BTreeSet<String>,
    /// How many writes Workers KV counts for it, at most.
    counted: u32,
    /// Why there is no use in a next one, if so.
    ended: Result<(), CloudflareError>,
}

/// What is done to one key, where a server knows no bulk calls.
#[derive(Clone, Copy)]
enum Deed<'a> {
    Put(&'a Pair),
    Delete(&'a str),
}

impl Publisher {
    /// Publishes what has changed since it was last published.
    pub async fn run(&self) -> Result<PublishReport, PublishError> {
        let now_ms = self.archive.client.store().now().await?.ms();
        let documents = Documents::make(&self.archive).await?;
        let known = self.archive.published.scan().all().await?;
        let known: BTreeMap<String, Published> =
            known.into_iter().map(|entry| (entry.key.as_str().to_owned(), entry.value)).collect();
        let kept_s = self.archive.bounds().keep.as_secs();
        // A list that nobody changes is written again before it would go away.
        let half_ms = i64::try_from(kept_s).unwrap_or(i64::MAX / 2_000) * 500;
        let mut changed: Vec<(String, String, String)> = Vec::new();
        let mut keys = BTreeSet::new();
        for (key, value, is_list) in in_order(&documents) {
            let value = value.to_string();
            let digest = digest(&value);
            let is_new = known.get(&key).is_none_or(|published| {
                published.digest != digest || (is_list && published.at_ms + half_ms < now_ms)
            });
            keys.insert(key.clone());
            if is_new {
                changed.push((key, value, digest));
            }
        }
        let mut report = self.write(changed, kept_s, now_ms).await?;
        let gone: Vec<String> = known.into_keys().filter(|key| !keys.contains(key)).collect();
        report.deleted = self.forget(gone).await?;
        Ok(report)
    }

    async fn write(
        &self,
        changed: Vec<(String, String, String)>,
        kept_s: u64,
        now_ms: i64,
    ) -> Result<PublishReport, PublishError> {
        let room = if self.count_open().await? { self.room(changed.len()).await? } else { 0 };
        let mut report = PublishReport { left: changed.len() as u64, ..PublishReport::default() };
        // Lists come last: they name no article that was not published before them. When there is no room for
        // all of it, articles wait and not the lists.
        let skip = changed.len() - room;
        let fit = |(key, value, digest)| Some((Pair::new(key, value, Some(kept_s)).ok()?, digest));
        let (pairs, digests): (Vec<Pair>, Vec<String>) =
            changed.into_iter().skip(skip).filter_map(fit).unzip();
        let mut rest = pairs.iter().zip(&digests);
        for batch in Batch::of(&pairs) {
            let now: Vec<(&Pair, &String)> = rest.by_ref().take(batch.pairs() as usize).collect();
            let Sent { failed, counted, ended } = self.send(&batch, &now).await?;
            let written: Vec<_> = now.into_iter().filter(|(pair, _)| !failed.contains(pair.key())).collect();
            for entries in written.chunks(COMMIT_MAX) {
                let mut batch = self.archive.client.batch();
                for (pair, digest) in entries {
                    let published = Published { digest: (*digest).clone(), at_ms: now_ms };
                    let put = batch.put(&self.archive.published, pair.key(), &published);
                    put.keep(Duration::from_secs(kept_s));
                }
                batch.commit().await?;
            }
            let has_counted = self.count(counted).await?;
            ended.map_err(PublishError::Kv)?;
            report.written += written.len() as u64;
            report.left -= written.len() as u64;
            if !has_counted {
                break;
            }
        }
        Ok(report)
    }

    /// Sends a batch. That it is under way is stored before: a program that dies meanwhile counts it when it is
    /// back, since Workers KV may have counted it too.
    async fn send(&self, batch: &Batch, pairs: &[(&Pair, &String)]) -> Result<Sent, PublishError> {
        let writes = u32::try_from(batch.pairs()).unwrap_or(u32::MAX);
        self.archive.publishing.put(UNDER_WAY, &writes).await?;
        let every = || pairs.iter().map(|(pair, _)| pair.key().to_owned());
        Ok(match self.kv.put_all(batch).await {
            Ok(bulk) => {
                let failed: BTreeSet<String> = bulk.failed.into_iter().collect();
                let written = every().filter(|key| !failed.contains(key)).count();
                Sent { failed, counted: u32::try_from(written).unwrap_or(writes), ended: Ok(()) }
            }
            Err(error) if has_no_bulk(&error) => self.send_each(pairs).await,
            Err(error) => {
                let counted = if error.is_refusal() { 0 } else { writes };
                Sent { failed: every().collect(), counted, ended: Err(error) }
            }
        })
    }

    async fn send_each(&self, pairs: &[(&Pair, &String)]) -> Sent {
        let mut counted = 0;
        for (at, (pair, _)) in pairs.iter().enumerate() {
            if let Err(error) = self.surely(Deed::Put(pair)).await {
                let failed = pairs[at..].iter().map(|(pair, _)| pair.key().to_owned()).collect();
                let counted = counted + u32::from(!error.is_refusal());
                return Sent { failed, counted, ended: Err(error) };
            }
            counted += 1;
        }
        Sent { failed: BTreeSet::new(), counted, ended: Ok(()) }
    }

    /// Counts what a run that was cut off had under way; answers whether that could be counted by now.
    async fn count_open(&self) -> Result<bool, PublishError> {
        match self.archive.publishing.get(UNDER_WAY).await? {
            Some(entry) => self.count(entry.value).await,
            None => Ok(true),
        }
    }

    /// Counts writes into the day's budget: those that Workers KV took, or may have taken. What it refused is
    /// free. Answers whether they are counted; otherwise they stay noted as under way.
    async fn count(&self, writes: u32) -> Result<bool, PublishError> {
        if writes > 0 {
            let store: &dyn Store = &**self.archive.client.store();
            if let Spent::Wait { .. } = store.spend(BudgetName::new(KV_BUDGET)?, writes).await? {
                return Ok(false);
            }
        }
        self.archive.publishing.delete(UNDER_WAY).await?;
        Ok(true)
    }

    /// Does something to one key, and again where the connection was cut: twice is the same as once.
    async fn surely(&self, deed: Deed<'_>) -> Result<(), CloudflareError> {
        let mut tries = 1;
        loop {
            let done = match deed {
                Deed::Put(pair) => self.kv.put(pair).await,
                Deed::Delete(key) => self.kv.delete(key).await,
            };
            match done {
                Err(CloudflareError::Http(error)) if error.is_transient() && tries < CALL_TRIES_MAX => {
                    tries += 1
                }
                done => return done,
            }
        }
    }

    /// How many of `wanted` writes there is room for.
    async fn room(&self, wanted: usize) -> Result<usize, PublishError> {
        let store: &dyn Store = &**self.archive.client.store();
        let budget = BudgetName::new(KV_BUDGET)?;
        let now = store.now().await?;
        let Some(status) = store.budgets().await?.into_iter().find(|status| status.budget.name == budget)
        else {
            return Ok(wanted.min(self.writes_per_day as usize));
        };
        if status.budget.is_cooling(now) {
            return Ok(0);
        }
        Ok(wanted.min(self.writes_per_day.saturating_sub(status.used.day) as usize))
    }

    /// Keys that are not ours to publish any more. Those of articles that an operator took away are deleted, and
    /// the others where that is wished; otherwise they go away by themselves.
    async fn forget(&self, gone: Vec<String>) -> Result<u64, PublishError> {
        let mut deleted = 0;
        for keys in gone.chunks(COMMIT_MAX) {
            let unwanted = self.unwanted(keys).await?;
            deleted += self.delete(&unwanted).await.map_err(PublishError::Kv)?;
            let mut batch = self.archive.client.batch();
            for key in keys {
                batch.delete(&self.archive.published, key);
            }
            batch.commit().await?;
        }
        Ok(deleted)
    }

    /// Of these keys, those that should not be read any more.
    async fn unwanted(&self, keys: &[String]) -> Result<Vec<String>, PublishError> {
        if self.archive.bounds().delete_old {
            return Ok(keys.to_vec());
        }
        let ids = keys.iter().map(|key| key.strip_prefix(ARTICLE).unwrap_or(key));
        let found = self.archive.articles.get_many(ids).await?;
        let is_dropped = |entry: &Option<Entry<Article>>| {
            entry.as_ref().is_some_and(|entry| matches!(entry.value.state, State::Dropped { .. }))
        };
        Ok(keys
            .iter()
            .zip(&found)
            .filter(|(_, entry)| is_dropped(entry))
            .map(|(key, _)| key.clone())
            .collect())
    }

    async fn delete(&self, keys: &[String]) -> Result<u64, CloudflareError> {
        if keys.is_empty() {
            return Ok(0);
        }
        match self.kv.delete_all(keys).await {
            Err(error) if has_no_bulk(&error) => {
                for key in keys {
                    self.surely(Deed::Delete(key)).await?;
                }
                Ok(keys.len() as u64)
            }
            bulk => bulk.map(|bulk| bulk.done),
        }
    }
}

/// Whether a server knows no bulk calls, as a local one may.
fn has_no_bulk(error: &CloudflareError) -> bool {
    use CloudflareError::{NotFound, Permanent};
    matches!(error, NotFound { status: 404 | 405, .. } | Permanent { status: 404 | 405, .. })
}

/// Articles, then the lists that name them.
fn in_order(documents: &Documents) -> impl Iterator<Item = (String, &Value, bool)> {
    let Documents { pending, checkpoint, index, articles } = documents;
    debug_assert!(articles.iter().all(|(key, _)| key.starts_with(ARTICLE)));
    let lists = [(INDEX, index), (CHECKPOINT, checkpoint), (PENDING, pending)];
    let articles = articles.iter().rev().map(|(key, value)| (key.clone(), value, false));
    articles.chain(lists.map(|(key, value)| (key.to_owned(), value, true)))
}

fn digest(value: &str) -> String {
    Sha256::digest(value.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
