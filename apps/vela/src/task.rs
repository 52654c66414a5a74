//! The three kinds of tasks: what a task is, and how one is asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use windlass_engine::JobRequest;

use crate::shop::ShopId;

/// The queue of all tasks.
pub const QUEUE: &str = "vela";
/// The budget that tasks name, so that a setting can limit how many begin.
pub const BUDGET: &str = "vela-tasks";
/// A task that waits this long weighs as much as one of the next more urgent kind.
pub const AGEING_MS: u64 = 6 * 3_600_000;

/// What is to be done with a shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Look what has changed at Etsy.
    RegularDownload,
    /// Take everything anew from Etsy.
    ForcedDownload,
    /// Send what users have changed.
    UploadChanges,
}

impl TaskKind {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 3] = [Self::UploadChanges, Self::ForcedDownload, Self::RegularDownload];

    /// The kind of its job.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RegularDownload => "regular_download",
            Self::ForcedDownload => "forced_download",
            Self::UploadChanges => "upload_changes",
        }
    }

    /// Higher first.
    pub fn priority(self) -> i16 {
        match self {
            Self::RegularDownload => 0,
            Self::ForcedDownload => 1,
            Self::UploadChanges => 2,
        }
    }

    /// Whether a user waits for it.
    pub fn is_asked_for(self) -> bool {
        self != Self::RegularDownload
    }

    /// Of the tasks with this mark at most one is not over. A regular download has that of its shop's schedule,
    /// so that one that was asked for and one that was due are the same.
    pub fn dedupe_key(self, shop: ShopId) -> String {
        match self {
            Self::RegularDownload => format!("schedule:{}", schedule_name(shop)),
            Self::ForcedDownload | Self::UploadChanges => format!("{self}:{shop}"),
        }
    }

    /// A second mark, for a task that is asked for while one of its kind is running already: that one may have
    /// looked before the wish came.
    pub fn second_dedupe_key(self, shop: ShopId) -> String {
        format!("{}:next", self.dedupe_key(shop))
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TaskKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| "it is none of regular_download, forced_download, upload_changes".to_owned())
    }
}

/// The schedule of a shop's regular downloads.
pub fn schedule_name(shop: ShopId) -> String {
    format!("regular_download:{shop}")
}

/// The key of a shop: of its tasks one is running at most.
pub fn key(shop: ShopId) -> String {
    format!("shop-{shop}")
}

/// What a task's job carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Which shop.
    pub shop_id: ShopId,
}

/// A task as it is enqueued, without its mark.
pub fn request(kind: TaskKind, shop: ShopId) -> JobRequest {
    JobRequest::new(kind.as_str(), Payload { shop_id: shop })
        .queue(QUEUE)
        .key(key(shop))
        .priority(kind.priority())
        .budget(BUDGET)
}
