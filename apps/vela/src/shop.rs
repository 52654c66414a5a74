//! A shop: whose it is, how it is reached, and how it does.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_engine::Time;
use windlass_engine::core::time::Span;

use crate::task::TaskKind;

/// Etsy's number of a shop.
pub type ShopId = u64;
/// Etsy's number of a listing.
pub type ListingId = u64;

/// What is known of a shop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shop {
    /// Etsy's number.
    pub shop_id: ShopId,
    /// The user whose shop it is.
    pub user_id: u64,
    /// Its name at Etsy, once it was asked for.
    #[serde(default)]
    pub name: Option<String>,
    /// The currency of its prices.
    #[serde(default)]
    pub currency: Option<String>,
    /// Its sections, by their numbers.
    #[serde(default)]
    pub sections: BTreeMap<u64, String>,
    /// How often it is downloaded; as the settings say when it says nothing.
    #[serde(default)]
    pub interval: Option<Interval>,
    /// Since when it is here.
    pub added_at: Time,
}

/// How Etsy is spoken to for a shop. It is kept apart from everything that is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct Connection {
    /// Goes with every call.
    pub access_token: String,
    /// Good for one refresh.
    pub refresh_token: String,
    /// Until then the access token is good.
    pub expires_at: Time,
    /// Somebody is refreshing.
    #[serde(default)]
    pub refreshing: Option<Refreshing>,
    /// Etsy takes these tokens no more, and what it said: only the seller can help.
    #[serde(default)]
    pub lost: Option<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access_token: _, refresh_token: _, expires_at, refreshing, lost } = self;
        let mut shown = f.debug_struct("Connection");
        shown.field("expires_at", expires_at).field("refreshing", refreshing).field("lost", lost);
        shown.finish_non_exhaustive()
    }
}

/// The lock of a refresh: two at once would revoke each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshing {
    /// Whose.
    pub by: String,
    /// From then on it is nobody's.
    pub until: Time,
}

/// How the sync of a shop does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Health {
    /// The last success of each kind.
    #[serde(default)]
    pub last_success: BTreeMap<TaskKind, Time>,
    /// What last went wrong, until something of the same kind went right.
    #[serde(default)]
    pub last_error: Option<LastError>,
}

/// What went wrong, in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastError {
    /// A word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// With which listing, if with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listing_id: Option<ListingId>,
    /// In which kind of task.
    pub kind: TaskKind,
    /// When.
    pub at: Time,
}

/// How often something is done: a length of time that a cron line can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval(u32);

impl Interval {
    /// What it must be, for people.
    pub const WHAT: &str =
        "a length of time that divides an hour or a day: 5m, 10m, 15m, 30m, 1h, 2h, 3h, 6h, 12h, 1d";

    /// A cron line with six fields, in which shops stand beside each other and not on each other's feet.
    pub fn cron(self, shop: ShopId) -> String {
        let (second, minutes) = (shop % 60, u64::from(self.0));
        let at = (shop / 60) % minutes;
        match self.0 {
            minutes if minutes < 60 => format!("{second} {at}-59/{minutes} * * * *"),
            60 => format!("{second} {at} * * * *"),
            1440 => format!("{second} {} {} * * *", at % 60, at / 60),
            minutes => format!("{second} {} {}-23/{} * * *", at % 60, at / 60, minutes / 60),
        }
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self(60)
    }
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("it is not {}", Self::WHAT);
        let ms = text.parse::<Span>().map_err(|_| refuse())?.ms();
        let minutes = u32::try_from(ms / 60_000).map_err(|_| refuse())?;
        let divides = match minutes {
            0 => false,
            1..60 => 60 % minutes == 0,
            _ => minutes % 60 == 0 && 1440 % minutes == 0,
        };
        if divides && ms % 60_000 == 0 { Ok(Self(minutes)) } else { Err(refuse()) }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span::from_ms(u64::from(self.0) * 60_000).fmt(f)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_cron_lines() {
        for (interval, shop, line) in [
            ("1h", 7_265, "5 1 * * * *"),
            ("15m", 0, "0 0-59/15 * * * *"),
            ("15m", 60 * 17, "0 2-59/15 * * * *"),
            ("6h", 60 * 61, "0 1 1-23/6 * * *"),
            ("1d", 60 * 125, "0 5 2 * * *"),
            ("1m", 59, "59 0-59/1 * * * *"),
        ] {
            let interval: Interval = interval.parse().unwrap();
            assert_eq!(interval.cron(shop), line);
            let cron = windlass_engine::core::policy::cron::CronLine::new(&interval.cron(shop), "UTC");
            assert!(cron.is_ok(), "{line}");
        }
        for bad in ["0m", "7m", "90m", "5h", "2d", "30s", "often"] {
            assert!(bad.parse::<Interval>().is_err(), "{bad}");
        }
    }

    /// Fault 71: tokens are not printed.
    #[test]
    fn fault_71_tokens_are_not_printed() {
        let connection = Connection {
            access_token: "canary".into(),
            refresh_token: "canary".into(),
            expires_at: Time::MIN,
            refreshing: None,
            lost: None,
        };
        assert!(!format!("{connection:?}").contains("canary"));
    }
}
