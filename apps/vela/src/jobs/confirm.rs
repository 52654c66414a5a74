//! What a walk has not seen: asked for by name before it is believed to be gone.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_engine::Change;
use windlass_outside::etsy::{BATCH_MAX, Call, LISTING_STATES};

use super::{Attempt, seen_prefix};
use crate::book::{Run, listing_key, shop_prefix};
use crate::listing::Standing;
use crate::shop::ListingId;
use crate::task::TaskKind;
use crate::trouble::Trouble;

impl Attempt<'_> {
    /// Takes those listings for deleted that Etsy does not know by name. When the pages did not add up, nothing
    /// is taken for deleted.
    pub(super) async fn confirm_deletions(
        &self,
        run: &mut Run,
        seen: &BTreeSet<ListingId>,
        is_resumed: bool,
    ) -> Result<(), Trouble> {
        if run.is_doubtful {
            tracing::warn!(shop = self.shop, "The pages did not add up: nothing is taken for deleted");
            return Ok(());
        }
        // What this attempt has seen is kept, and nobody else works on the shop: when no more than that is there,
        // nothing is missing, and need not be read. Between two attempts something may have been taken for deleted.
        if !is_resumed && self.kept().await? == seen.len() as u64 {
            return Ok(());
        }
        let missing = self.missing(seen).await?;
        for ids in missing.chunks(BATCH_MAX) {
            let answer = self.caller.call(&Call::batch(ids)).await?;
            let Some(found) = answer["results"].as_array() else {
                return Err(Trouble::Away(windlass_outside::etsy::EtsyError::Malformed("it has no results")));
            };
            let ours = |listing: &&Value| {
                let is_shown = listing["state"].as_str().is_some_and(|state| LISTING_STATES.contains(&state));
                listing["shop_id"].as_u64() == Some(self.shop) && is_shown
            };
            let there: BTreeSet<ListingId> =
                found.iter().filter(ours).filter_map(|listing| listing["listing_id"].as_u64()).collect();
            for id in ids.iter().filter(|id| !there.contains(id)) {
                self.deleted(*id).await?;
                run.changed += 1;
            }
        }
        Ok(())
    }

    /// How many listings are kept that are not known to be gone.
    async fn kept(&self) -> Result<u64, Trouble> {
        let counts = self.sync.shelves.listings.count(&shop_prefix(self.shop)).await?;
        let gone = [Standing::Deleted, Standing::ConflictDeleted].map(|gone| counts.of(gone.as_str()));
        Ok(counts.total() - gone.iter().sum::<u64>())
    }

    /// What is kept, was not seen, and is not known to be gone.
    async fn missing(&self, seen: &BTreeSet<ListingId>) -> Result<Vec<ListingId>, Trouble> {
        let (mut missing, mut after) = (Vec::new(), None);
        loop {
            let scan =
                self.sync.shelves.listings.scan().prefix(shop_prefix(self.shop)).limit(500).after(after);
            let page = scan.await?;
            for listing in page.entries {
                if listing.value.deleted_at.is_none() && !seen.contains(&listing.value.listing_id) {
                    missing.push(listing.value.listing_id);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(missing),
            }
        }
    }

    /// A listing is gone at Etsy. What users have changed of it stays, for the seller to decide.
    pub(super) async fn deleted(&self, id: ListingId) -> Result<(), Trouble> {
        let now = self.now().await?;
        let update = self.sync.shelves.listings.update(listing_key(self.shop, id), |had| match had {
            None => Change::Leave,
            Some(had) => {
                let mut listing = had.value;
                listing.deleted_at = Some(now);
                let label = listing.standing().as_str();
                Change::from(windlass_engine::Draft::new(listing).label(label))
            }
        });
        update.under(self.ctx).await?;
        Ok(())
    }

    /// Ends a walk, and sees to it that what waits to be sent has a task.
    pub(super) async fn after_download(&self, mut run: Run) -> Result<(), Trouble> {
        run.finished_at = Some(self.now().await?);
        let shelves = &self.sync.shelves;
        let mut batch = self.sync.client.batch().under(self.ctx);
        batch.put(&shelves.runs, self.run_key(), &run);
        for page in 1..=run.pages.min(900) {
            batch.delete(&shelves.seen, format!("{}{page:08}", seen_prefix(self.shop, run.task)));
        }
        batch.commit().await?;
        let waiting = shelves.listings.count(&shop_prefix(self.shop)).await?.of(Standing::Dirty.as_str());
        let failed = self
            .sync
            .tasks
            .of_shop(self.shop)
            .await?
            .iter()
            .any(|job| crate::tasks::kind_of(job) == Some(TaskKind::UploadChanges));
        if waiting > 0 && !failed {
            self.sync.tasks.ask(TaskKind::UploadChanges, self.shop).await?;
        }
        Ok(())
    }
}
