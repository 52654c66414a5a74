//! A page of listings: stored with the cursor behind it, in one commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use windlass_engine::{Entry, ShelfError};
use windlass_outside::etsy::{BATCH_MAX, Call, PAGE_MAX};

use super::{Attempt, seen_prefix};
use crate::book::{Run, listing_key};
use crate::fields::Sections;
use crate::listing::{Listing, hash};
use crate::shop::ListingId;
use crate::task::TaskKind;
use crate::trouble::Trouble;
use crate::variants;

/// What a walk has seen is of no use after this.
const SEEN_KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How often a page is stored anew because somebody edited a listing of it meanwhile.
const TRIES_MAX: u32 = 20;

impl Attempt<'_> {
    /// Stores a page and moves the run behind it.
    pub(super) async fn store_page(
        &self,
        run: &mut Run,
        listings: Vec<Value>,
        sections: &Sections,
        seen: &mut BTreeSet<ListingId>,
    ) -> Result<(), Trouble> {
        let shown = u64::try_from(listings.len()).unwrap_or(u64::MAX);
        // Pages shift while they are read: one that was seen is not new.
        let mut new: BTreeMap<ListingId, Value> = BTreeMap::new();
        for listing in listings {
            if let Some(id) = listing["listing_id"].as_u64().filter(|id| !seen.contains(id)) {
                new.insert(id, listing);
            }
        }
        self.fill_in_skus(&mut new).await?;
        let hashed: Vec<(ListingId, Value, String)> = new
            .into_iter()
            .map(|(id, listing)| {
                let hash = hash(&listing);
                (id, listing, hash)
            })
            .collect();
        let mut tries = 0;
        let after = loop {
            tries += 1;
            match self.try_store(run, shown, &hashed, sections).await {
                Err(Trouble::Ended(windlass_engine::Failure::Retry { error, .. }))
                    if tries < TRIES_MAX && is_conflict(&*error) => {}
                stored => break stored?,
            }
        };
        *run = after;
        seen.extend(hashed.iter().map(|(id, _, _)| *id));
        Ok(())
    }

    async fn try_store(
        &self,
        run: &Run,
        shown: u64,
        page: &[(ListingId, Value, String)],
        sections: &Sections,
    ) -> Result<Run, Trouble> {
        let shelves = &self.sync.shelves;
        let had =
            shelves.listings.get_many(page.iter().map(|(id, _, _)| listing_key(self.shop, *id))).await?;
        let mut batch = self.sync.client.batch().under(self.ctx);
        let mut changed = 0;
        for ((id, remote, hash), had) in page.iter().zip(had) {
            let Some(listing) = self.merged(*id, remote, hash, had.as_ref(), sections) else { continue };
            changed += 1;
            let put = batch.put(&shelves.listings, listing_key(self.shop, *id), &listing);
            let put = put.label(listing.standing().as_str());
            match had {
                Some(had) => put.if_rev(had.rev),
                None => put.if_absent(),
            };
        }
        let new = u64::try_from(page.len()).unwrap_or(u64::MAX);
        let mut after = run.clone();
        after.pages += 1;
        after.offset += PAGE_MAX.min(u32::try_from(shown).unwrap_or(u32::MAX)).max(1);
        (after.seen_of_state, after.done, after.changed) =
            (run.seen_of_state + new, run.done + new, run.changed + changed);
        let ids: Vec<ListingId> = page.iter().map(|(id, _, _)| *id).collect();
        let key = format!("{}{:08}", seen_prefix(self.shop, run.task), after.pages);
        batch.put(&shelves.seen, key, &ids).keep(SEEN_KEPT);
        batch.put(&shelves.runs, self.run_key(), &after);
        batch.commit().await?;
        Ok(after)
    }

    /// The listing as it is to be kept; nothing when it is kept so already.
    fn merged(
        &self,
        id: ListingId,
        remote: &Value,
        hash: &str,
        had: Option<&Entry<Listing>>,
        sections: &Sections,
    ) -> Option<Listing> {
        let Some(had) = had else { return Some(Listing::new(id, remote.clone(), hash.to_owned())) };
        let is_same = had.value.hash == hash && had.value.deleted_at.is_none();
        if is_same && self.kind == TaskKind::RegularDownload {
            return None;
        }
        let mut listing = had.value.clone();
        listing.seen(remote.clone(), hash.to_owned(), sections);
        Some(listing)
    }

    /// Etsy has been known to leave out SKUs where inventories come along with a page: then they are asked for
    /// by themselves. One that is gone meanwhile spoils that question, and is left as it is.
    async fn fill_in_skus(&self, page: &mut BTreeMap<ListingId, Value>) -> Result<(), Trouble> {
        let doubtful = |listing: &Value| {
            listing["has_variations"] == Value::Bool(true) && variants::has_no_sku(&listing["inventory"])
        };
        let mut ids: Vec<ListingId> =
            page.iter().filter(|(_, listing)| doubtful(listing)).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let had =
            self.sync.shelves.listings.get_many(ids.iter().map(|id| listing_key(self.shop, *id))).await?;
        let with_sku: BTreeSet<ListingId> = had
            .into_iter()
            .flatten()
            .filter(|had| !variants::has_no_sku(&had.value.remote["inventory"]))
            .map(|had| had.value.listing_id)
            .collect();
        // What never had one needs no second look, unless everything is to be looked at.
        ids.retain(|id| self.kind == TaskKind::ForcedDownload || with_sku.contains(id));
        for ids in ids.chunks(BATCH_MAX) {
            let answer = match self.caller.call(&Call::batch_inventory(ids)).await {
                Ok(answer) => answer,
                Err(Trouble::Refused(_)) => continue,
                Err(trouble) => return Err(trouble),
            };
            for inventory in answer["results"].as_array().into_iter().flatten() {
                let id = inventory["listing_id"].as_u64().unwrap_or_default();
                if let Some(listing) = page.get_mut(&id) {
                    let mut inventory = inventory.clone();
                    inventory.as_object_mut().map(|inventory| inventory.remove("listing_id"));
                    listing["inventory"] = inventory;
                }
            }
        }
        Ok(())
    }
}

fn is_conflict(error: &(dyn std::error::Error + Send + std::marker::Sync + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(ShelfError::Conflict { .. }))
}
