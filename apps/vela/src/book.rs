//! What Vela keeps beside its tasks: a shelf for each sort of thing.

use serde::{Deserialize, Serialize};
use windlass_engine::{Client, JobId, Shelf, Time};

use crate::ledger::Ledger;
use crate::listing::Listing;
use crate::shop::{Connection, Health, ListingId, Shop, ShopId};
use crate::task::TaskKind;

/// The shelves.
#[derive(Debug, Clone)]
pub struct Shelves {
    /// Shops, by their numbers.
    pub shops: Shelf<Shop>,
    /// How Etsy is spoken to for a shop.
    pub connections: Shelf<Connection>,
    /// How a shop does.
    pub health: Shelf<Health>,
    /// Listings, by shop and number.
    pub listings: Shelf<Listing>,
    /// Where the walk through a shop is, or where the last one ended.
    pub runs: Shelf<Run>,
    /// What a walk has seen, a record for each page.
    pub seen: Shelf<Vec<ListingId>>,
    /// Calls to Etsy.
    pub ledgers: Shelf<Ledger>,
}

impl Shelves {
    /// The shelves of a store.
    pub fn of(client: &Client) -> Self {
        Self {
            shops: client.shelf("vela.shops"),
            connections: client.shelf("vela.connections"),
            health: client.shelf("vela.health"),
            listings: client.shelf("vela.listings"),
            runs: client.shelf("vela.runs"),
            seen: client.shelf("vela.seen"),
            ledgers: client.shelf("vela.ledgers"),
        }
    }
}

/// The key of a listing; keys of one shop stand together, in the order of their numbers.
pub fn listing_key(shop: ShopId, listing: ListingId) -> String {
    format!("{shop}/{listing:020}")
}

/// How the keys of a shop's listings begin.
pub fn shop_prefix(shop: ShopId) -> String {
    format!("{shop}/")
}

/// A walk through a shop, or an upload: where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Whose: another task begins anew.
    pub task: JobId,
    /// Of which kind.
    pub kind: TaskKind,
    /// Since when.
    pub started_at: Time,
    /// Which of the states is walked through, or all of them are.
    pub state: usize,
    /// How many listings of that state were asked for.
    pub offset: u32,
    /// Whether that state is walked through from the other end.
    pub is_backwards: bool,
    /// How many pages were seen.
    pub pages: u32,
    /// How many listings of the states before there were.
    pub expected_before: u64,
    /// How many listings of this state there are.
    pub expected: u64,
    /// How many different listings of this state were seen.
    pub seen_of_state: u64,
    /// How many different listings were seen.
    pub done: u64,
    /// How many of them were new or had changed.
    pub changed: u64,
    /// Whether some page did not add up: then nothing is taken for deleted.
    pub is_doubtful: bool,
    /// For an upload: how many listings there were to send at its beginning.
    #[serde(default)]
    pub to_upload: u64,
    /// For an upload: how many were sent.
    #[serde(default)]
    pub uploaded: u64,
    /// Since when it is over.
    #[serde(default)]
    pub finished_at: Option<Time>,
}

impl Run {
    /// A walk that has not begun.
    pub fn new(task: JobId, kind: TaskKind, now: Time) -> Self {
        Self {
            task,
            kind,
            started_at: now,
            state: 0,
            offset: 0,
            is_backwards: false,
            pages: 0,
            expected_before: 0,
            expected: 0,
            seen_of_state: 0,
            done: 0,
            changed: 0,
            is_doubtful: false,
            to_upload: 0,
            uploaded: 0,
            finished_at: None,
        }
    }

    /// How many listings are still to be downloaded, as far as is known.
    pub fn to_download(&self) -> u64 {
        match self.finished_at {
            Some(_) => 0,
            None => (self.expected_before + self.expected).saturating_sub(self.done),
        }
    }
}
