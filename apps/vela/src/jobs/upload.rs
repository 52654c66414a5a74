//! Sends what users have changed.

use std::collections::{BTreeMap, VecDeque};

use futures::future::{BoxFuture, OptionFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::Mutex;
use windlass_engine::Change;
use windlass_outside::etsy::{BATCH_MAX, Call, EtsyError};

use super::walk::sections;
use super::{Attempt, send::Sent};
use crate::book::{Run, shop_prefix};
use crate::fields::Sections;
use crate::listing::{Listing, Standing};
use crate::shop::ListingId;
use crate::trouble::Trouble;

/// How many listings are on their way at once.
const AT_ONCE: usize = 8;

impl Attempt<'_> {
    /// Sends all changes of a shop, those too that are made meanwhile.
    pub(super) async fn upload(&self) -> Result<(), Trouble> {
        // Taken in before the first look, so that whoever was told of them is served by it.
        self.sync.tasks.take_in(self.shop, &[self.kind], Some(self.ctx.id())).await?;
        let mut run = self.run().await?;
        let mut tried: BTreeMap<ListingId, u64> = BTreeMap::new();
        let mut sections: Option<Mutex<Sections>> = None;
        let mut away = None;
        loop {
            let dirty = self.dirty(&tried).await?;
            if dirty.is_empty() {
                break;
            }
            run.to_upload = run.uploaded + u64::try_from(dirty.len()).unwrap_or(u64::MAX);
            self.store_run(&run).await?;
            tried.extend(dirty.iter().map(|listing| (listing.listing_id, listing.rev)));
            if sections.is_none() {
                sections = Some(Mutex::new(self.sections().await?));
            }
            if let Some(sections) = &sections {
                away = self.send_all(dirty, sections, &mut run).await?.or(away);
            }
        }
        run.finished_at = Some(self.now().await?);
        self.store_run(&run).await?;
        match away {
            Some(error) => Err(Trouble::Away(error)),
            None => Ok(()),
        }
    }

    /// The listings that wait to be sent, and were not tried in this state.
    async fn dirty(&self, tried: &BTreeMap<ListingId, u64>) -> Result<Vec<Listing>, Trouble> {
        let scan = self.sync.shelves.listings.scan().prefix(shop_prefix(self.shop));
        let all = scan.label(Standing::Dirty.as_str()).all().await?;
        let due = |listing: &Listing| tried.get(&listing.listing_id).is_none_or(|rev| *rev < listing.rev);
        Ok(all.into_iter().map(|listing| listing.value).filter(due).collect())
    }

    /// Sends listings, eight at a time: who is done makes room for the next, and nobody waits for the slowest.
    /// Answers what kept Etsy from answering, if something did; the other listings were sent all the same.
    async fn send_all(
        &self,
        dirty: Vec<Listing>,
        sections: &Mutex<Sections>,
        run: &mut Run,
    ) -> Result<Option<EtsyError>, Trouble> {
        let mut chunks = dirty.chunks(BATCH_MAX).map(<[Listing]>::to_vec);
        let (mut ready, mut sends, mut away) = (VecDeque::new(), FuturesUnordered::new(), None);
        let mut fetch: Option<BoxFuture<'_, _>> = None;
        loop {
            if fetch.is_none() && ready.len() < AT_ONCE {
                fetch = chunks.next().map(|chunk| self.with_remote(chunk).boxed());
            }
            while sends.len() < AT_ONCE
                && let Some((listing, remote)) = ready.pop_front()
            {
                sends.push(self.send(listing, remote, sections).boxed());
            }
            if sends.is_empty() && fetch.is_none() {
                break;
            }
            tokio::select! {
                Some(sent) = sends.next(), if !sends.is_empty() => match sent? {
                    Sent::Away(error) => away = Some(error),
                    Sent::Done | Sent::Refused => {
                        run.uploaded += 1;
                        self.store_run(run).await?;
                        self.got_on().await?;
                    }
                },
                Some(fetched) = OptionFuture::from(fetch.as_mut()), if fetch.is_some() => {
                    ready.extend(fetched?);
                    fetch = None;
                }
            }
        }
        Ok(away)
    }

    /// Listings with what Etsy says of them now; nothing where it does not know them any more.
    async fn with_remote(&self, listings: Vec<Listing>) -> Result<Vec<(Listing, Option<Value>)>, Trouble> {
        let mut ids: Vec<ListingId> = listings.iter().map(|listing| listing.listing_id).collect();
        let mut found: BTreeMap<ListingId, Value> = BTreeMap::new();
        // Who is not in the first answer is asked for once more, before anybody believes that it is gone.
        for _ in 0..2 {
            if ids.is_empty() {
                break;
            }
            let mut answer = self.caller.call(&Call::batch(&ids)).await?;
            let Value::Array(results) = answer["results"].take() else {
                return Err(Trouble::Away(EtsyError::Malformed("a batch has no results")));
            };
            let known = |listing: Value| Some((listing["listing_id"].as_u64()?, listing));
            found.extend(results.into_iter().filter_map(known));
            ids.retain(|id| !found.contains_key(id));
        }
        let pairs = listings.into_iter().map(|listing| {
            let remote = found.remove(&listing.listing_id);
            (listing, remote)
        });
        Ok(pairs.collect())
    }

    async fn sections(&self) -> Result<Sections, Trouble> {
        let known = sections(&self.caller.call(&Call::sections(self.shop)).await?);
        self.store_sections(&known).await?;
        Ok(known)
    }

    /// The number of a section by its title; it is made when there is none. One at a time, or there would be two.
    pub(super) async fn section(&self, title: &str, known: &Mutex<Sections>) -> Result<u64, Trouble> {
        let mut known = known.lock().await;
        let find = |known: &Sections| known.iter().find(|(_, had)| *had == title).map(|(id, _)| *id);
        if let Some(id) = find(&known) {
            return Ok(id);
        }
        match self.caller.call(&Call::create_section(self.shop, title)).await {
            Ok(made) => {
                let id = made["shop_section_id"].as_u64();
                let id = id.ok_or(Trouble::Away(EtsyError::Malformed("a new section has no number")))?;
                known.insert(id, title.to_owned());
                self.store_sections(&known).await?;
                Ok(id)
            }
            // It may be there by now: made in an attempt whose answer was lost, or by the seller.
            Err(Trouble::Refused(error)) => {
                *known = self.sections().await?;
                find(&known).ok_or(Trouble::Refused(error))
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Users see sections by their titles.
    async fn store_sections(&self, known: &Sections) -> Result<(), Trouble> {
        let update = self.sync.shelves.shops.update(self.shop, |had| match had.map(|had| had.value) {
            Some(mut shop) if shop.sections != *known => {
                shop.sections.clone_from(known);
                Change::from(shop)
            }
            _ => Change::Leave,
        });
        update.under(self.ctx).await?;
        Ok(())
    }

    async fn store_run(&self, run: &Run) -> Result<(), Trouble> {
        let mut batch = self.sync.client.batch().under(self.ctx);
        batch.put(&self.sync.shelves.runs, self.run_key(), run);
        batch.commit().await?;
        Ok(())
    }
}
