//! A page of a shop's listings, of all of them or of some standings: a merge of one scan for each standing.

use futures::future::try_join_all;
use windlass_engine::core::record::ScanCursor;
use windlass_engine::{Entry, EntryPage, Shelf, ShelfError};

use crate::book::shop_prefix;
use crate::listing::{Listing, Standing};
use crate::shop::ShopId;

/// Which listings are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Only those that have changes which Etsy does not have, or only those that have none.
    pub dirty: Option<bool>,
    /// Only those that stand so.
    pub standing: Option<Standing>,
}

impl Wanted {
    /// The standings that fit; nothing when all do.
    fn standings(self) -> Option<Vec<Standing>> {
        let Self { dirty, standing } = self;
        if dirty.is_none() && standing.is_none() {
            return None;
        }
        let fits = |one: &Standing| {
            dirty.is_none_or(|dirty| one.has_unsent() == dirty)
                && standing.is_none_or(|wanted| wanted == *one)
        };
        Some(Standing::ALL.into_iter().filter(fits).collect())
    }
}

/// A page of listings, in the order of their numbers.
pub async fn page(
    shelf: &Shelf<Listing>,
    shop: ShopId,
    wanted: Wanted,
    limit: u32,
    after: Option<ScanCursor>,
) -> Result<EntryPage<Listing>, ShelfError> {
    let scan = || shelf.scan().prefix(shop_prefix(shop)).limit(limit).after(after.clone());
    match wanted.standings() {
        None => scan().await,
        Some(standings) => {
            let scans = standings.into_iter().map(|standing| scan().label(standing.as_str()).into_future());
            Ok(merged(try_join_all(scans).await?, limit as usize))
        }
    }
}

/// Pages of one order as one page. Each may know more than the others of what comes next.
fn merged<T>(pages: Vec<EntryPage<T>>, limit: usize) -> EntryPage<T> {
    // Behind the end of a page that is not the last of its scan, nothing is known of that scan.
    let known_to = pages.iter().filter_map(|page| page.next.as_ref()).map(|next| next.key.clone()).min();
    let mut entries: Vec<Entry<T>> = pages.into_iter().flat_map(|page| page.entries).collect();
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    // The scans are not of one moment: a listing may have moved from one to the next between them.
    entries.dedup_by(|one, other| one.key == other.key);
    let found = entries.len();
    if let Some(known_to) = &known_to {
        entries.retain(|entry| entry.key.as_str() <= known_to.as_str());
    }
    entries.truncate(limit);
    let has_more = known_to.is_some() || entries.len() < found;
    let last = entries.last().filter(|_| has_more);
    let next = last.map(|entry| ScanCursor { at: 0, key: entry.key.as_str().to_owned() });
    EntryPage { entries, next }
}

#[cfg(test)]
mod tests {
    use windlass_engine::Time;
    use windlass_engine::core::id::RecordKey;

    use super::*;

    fn entry(key: &str) -> Entry<()> {
        let key = RecordKey::new(key).unwrap();
        Entry { key, value: (), sort: 0, label: None, rev: 1, written_at: Time::MIN, expires_at: None }
    }

    fn one_page(keys: &[&str], has_more: bool) -> EntryPage<()> {
        let next = keys.last().filter(|_| has_more);
        let next = next.map(|key| ScanCursor { at: 0, key: (*key).to_owned() });
        EntryPage { entries: keys.iter().map(|key| entry(key)).collect(), next }
    }

    #[test]
    fn a_merge_leaves_nothing_out() {
        for (pages, limit, keys, next) in [
            (vec![one_page(&["b", "d"], false), one_page(&["a", "c"], false)], 4, "abcd", None),
            (vec![one_page(&["b", "d"], false), one_page(&["a", "c"], false)], 3, "abc", Some("c")),
            // The second scan has shown nothing behind b: what the first shows there has to wait.
            (vec![one_page(&["c", "d"], false), one_page(&["a", "b"], true)], 4, "ab", Some("b")),
            (vec![one_page(&["a", "b"], false), one_page(&["b"], false)], 4, "ab", None),
            (vec![one_page(&[], false), one_page(&["a"], true)], 1, "a", Some("a")),
            (vec![one_page(&[], false), one_page(&[], false)], 1, "", None),
        ] {
            let merged = merged(pages, limit);
            let found: String = merged.entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!((found.as_str(), merged.next.as_ref().map(|next| next.key.as_str())), (keys, next));
        }
    }
}
