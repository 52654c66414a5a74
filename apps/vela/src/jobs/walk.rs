//! The walk through a shop: all states, page by page, in one commit each.

use std::collections::BTreeSet;

use futures::future::{Either, select};
use futures::{FutureExt, Stream, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;
use windlass_engine::Change;
use windlass_outside::etsy::{Call, EtsyError, LISTING_STATES, OFFSET_MAX, PAGE_MAX, Place, Sort};

use super::{Attempt, seen_prefix};
use crate::book::Run;
use crate::fields::Sections;
use crate::shop::ListingId;
use crate::task::TaskKind;
use crate::trouble::Trouble;

/// How many pages are asked for ahead of the one that is being stored.
const AHEAD: usize = 4;

/// A page of listings, and how many listings its state has; nothing where Etsy shows no more.
type Page = Option<(u64, Vec<Value>)>;

/// How a stretch of pages ended.
enum Stretch {
    /// The state is done.
    Done,
    /// A forced download waits: this regular one has nothing to add to it.
    Overtaken,
}

impl Attempt<'_> {
    /// Takes a shop from Etsy.
    pub(super) async fn download(&self) -> Result<(), Trouble> {
        if self.kind == TaskKind::ForcedDownload {
            let kinds = [TaskKind::RegularDownload, TaskKind::ForcedDownload];
            self.sync.tasks.take_in(self.shop, &kinds, Some(self.ctx.id())).await?;
        }
        let mut run = self.run().await?;
        let is_resumed = run.pages > 0;
        let sections = self.shop_and_sections().await?;
        let mut seen = self.seen(&run).await?;
        while run.state < LISTING_STATES.len() {
            if let Stretch::Overtaken = self.walk_state(&mut run, &sections, &mut seen).await? {
                tracing::info!(shop = self.shop, "A forced download takes over");
                return Ok(());
            }
        }
        self.confirm_deletions(&mut run, &seen, is_resumed).await?;
        self.after_download(run).await
    }

    /// What the shop says of itself, and its sections.
    async fn shop_and_sections(&self) -> Result<Sections, Trouble> {
        let shop = self.caller.call(&Call::shop(self.shop)).await?;
        let sections = sections(&self.caller.call(&Call::sections(self.shop)).await?);
        let update = self.sync.shelves.shops.update(self.shop, |had| {
            let Some(mut had) = had.map(|had| had.value) else { return Change::Leave };
            had.name = shop["shop_name"].as_str().map(str::to_owned).or(had.name);
            had.currency = shop["currency_code"].as_str().map(str::to_owned).or(had.currency);
            had.sections.clone_from(&sections);
            Change::from(had)
        });
        update.under(self.ctx).await?;
        Ok(sections)
    }

    /// What this walk has seen before it was interrupted.
    async fn seen(&self, run: &Run) -> Result<BTreeSet<ListingId>, Trouble> {
        if run.pages == 0 {
            return Ok(BTreeSet::new());
        }
        let pages = self.sync.shelves.seen.scan().prefix(seen_prefix(self.shop, run.task)).all().await?;
        Ok(pages.into_iter().flat_map(|page| page.value).collect())
    }

    /// Walks through the rest of a state, from the newest to the oldest. When the pages do not add up, once more
    /// from the other end: Etsy is known to show some listings twice and others not at all.
    async fn walk_state(
        &self,
        run: &mut Run,
        sections: &Sections,
        seen: &mut BTreeSet<ListingId>,
    ) -> Result<Stretch, Trouble> {
        if let Stretch::Overtaken = self.walk_pages(run, sections, seen).await? {
            return Ok(Stretch::Overtaken);
        }
        if run.seen_of_state < run.expected && !run.is_backwards {
            tracing::info!(
                shop = self.shop,
                seen = run.seen_of_state,
                expected = run.expected,
                "Pages do not add up"
            );
            (run.is_backwards, run.offset) = (true, 0);
            return Ok(Stretch::Done);
        }
        run.is_doubtful |= run.seen_of_state < run.expected;
        run.expected_before += run.expected.max(run.seen_of_state);
        (run.state, run.offset, run.is_backwards) = (run.state + 1, 0, false);
        (run.expected, run.seen_of_state) = (0, 0);
        Ok(Stretch::Done)
    }

    /// The pages of a state from where the run is to their end. Pages are asked for ahead (prefetch), while those before
    /// them are stored, and stored in order.
    async fn walk_pages(
        &self,
        run: &mut Run,
        sections: &Sections,
        seen: &mut BTreeSet<ListingId>,
    ) -> Result<Stretch, Trouble> {
        let first = self.page(run, run.offset).await?;
        let Some((count, first)) = first else { return Ok(Stretch::Done) };
        // A count is a stranger's number: beyond the last offset there is nothing to ask for.
        let end = u32::try_from(count).unwrap_or(u32::MAX).min(OFFSET_MAX + 1);
        let rest: Vec<u32> = (run.offset..end).step_by(PAGE_MAX as usize).skip(1).collect();
        let place = run.clone();
        let ahead =
            futures::stream::iter(rest).map(|offset| self.page(&place, offset).boxed()).buffered(AHEAD);
        let first = futures::stream::iter([Ok(Some((count, first)))]);
        let (give, mut pages) = mpsc::channel(1);
        let ask = ask_ahead(first.chain(ahead), give);
        let store = self.store_pages(run, &mut pages, sections, seen);
        match select(std::pin::pin!(store), std::pin::pin!(ask)).await {
            Either::Left((stored, _)) => stored,
            Either::Right(((), store)) => store.await,
        }
    }

    /// Stores pages as they come, until one of them is the last.
    async fn store_pages(
        &self,
        run: &mut Run,
        pages: &mut mpsc::Receiver<Result<Page, Trouble>>,
        sections: &Sections,
        seen: &mut BTreeSet<ListingId>,
    ) -> Result<Stretch, Trouble> {
        while let Some(page) = pages.recv().await {
            let Some((count, listings)) = page? else { break };
            run.expected = run.expected.max(count);
            let is_last = listings.len() < PAGE_MAX as usize;
            self.store_page(run, listings, sections, seen).await?;
            self.got_on().await?;
            self.ctx.go_on().await?;
            if self.kind == TaskKind::RegularDownload
                && self.sync.tasks.is_queued(TaskKind::ForcedDownload, self.shop).await?
            {
                return Ok(Stretch::Overtaken);
            }
            if is_last || run.seen_of_state >= run.expected {
                break;
            }
        }
        Ok(Stretch::Done)
    }

    /// A page of the state that a run is at.
    async fn page(&self, run: &Run, offset: u32) -> Result<Page, Trouble> {
        if offset > OFFSET_MAX {
            return Ok(None);
        }
        let sort = if run.is_backwards { Sort::Oldest } else { Sort::Newest };
        let place = Place { state: LISTING_STATES[run.state], offset, sort };
        let mut page = self.caller.call(&Call::listings(self.shop, place)).await?;
        let count = page["count"].as_u64();
        match (count, page["results"].take()) {
            (Some(count), Value::Array(listings)) => Ok(Some((count, listings))),
            _ => Err(Trouble::Away(EtsyError::Malformed("a page has no count or no results"))),
        }
    }
}

/// Hands on pages as they come, for as long as somebody takes them.
async fn ask_ahead(
    pages: impl Stream<Item = Result<Page, Trouble>>,
    give: mpsc::Sender<Result<Page, Trouble>>,
) {
    let mut pages = std::pin::pin!(pages);
    while let Some(page) = pages.next().await {
        if give.send(page).await.is_err() {
            return;
        }
    }
}

/// Sections as Etsy lists them.
pub(super) fn sections(answer: &Value) -> Sections {
    let all = answer["results"].as_array().into_iter().flatten();
    let one =
        |section: &Value| Some((section["shop_section_id"].as_u64()?, section["title"].as_str()?.to_owned()));
    all.filter_map(one).collect()
}
