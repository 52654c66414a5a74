//! A listing: what it is at Etsy, and what users want it to be.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_engine::Time;

use crate::fields::{self, Fields, Sections, Wish};
use crate::merge::Conflict;
use crate::shop::ListingId;

/// How many conflicts are kept.
const CONFLICTS_MAX: usize = 50;
/// How many earlier words of a change are kept.
const EARLIER_MAX: usize = 16;
/// What changes without anybody changing it.
const VOLATILE: [&str; 3] = ["views", "num_favorers", "featured_rank"];

/// A listing as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// Etsy's number.
    pub listing_id: ListingId,
    /// What Etsy last said of it.
    pub remote: Value,
    /// A digest of that, so that what has not changed need not be compared.
    pub hash: String,
    /// What users have changed and Etsy does not know yet, by field.
    #[serde(default)]
    pub changes: BTreeMap<String, Change>,
    /// Counts the users' changes.
    #[serde(default)]
    pub rev: u64,
    /// Up to which of them Etsy knows all.
    #[serde(default)]
    pub uploaded_rev: u64,
    /// The seller knows that the changes may cost a listing fee.
    #[serde(default)]
    pub accepts_fee: bool,
    /// An inventory that was on its way when it was last heard of.
    #[serde(default)]
    pub sending: Option<Sending>,
    /// Where both sides had changed.
    #[serde(default)]
    pub conflicts: Vec<Conflict>,
    /// Why Etsy does not take the changes: they wait until they are changed again.
    #[serde(default)]
    pub error: Option<String>,
    /// Since when it is gone at Etsy.
    #[serde(default)]
    pub deleted_at: Option<Time>,
}

/// A change of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What it is to be.
    pub value: Value,
    /// What it was at Etsy when it was first changed.
    pub base: Value,
    /// Which change of the listing this was.
    pub rev: u64,
    /// What it was to be before, the newest last: one of these may be at Etsy, sent in an attempt whose answer nobody
    /// heard. Finding one there is no conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Value>,
}

impl Change {
    /// The field is changed once more.
    fn again(mut self, value: Value, rev: u64) -> Self {
        self.earlier.push(std::mem::replace(&mut self.value, value));
        let surplus = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..surplus);
        Self { rev, ..self }
    }
}

/// What is written down before an inventory is sent: so that whoever comes
/// after a crash can tell whether it arrived, and takes no difference twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    /// Up to which change.
    pub rev: u64,
    /// The numbers of the products before. Etsy gives out new ones with every write.
    pub products: BTreeSet<u64>,
    /// What was sent.
    pub sent: Fields,
}

impl Sending {
    /// Whether it has arrived, seen from what is at Etsy now: somebody has written, and what is there can have come
    /// of what was sent. Buyers may have bought since; a seller who wrote instead of us did not write the same.
    pub fn has_arrived(&self, products: &BTreeSet<u64>, now: &Fields) -> bool {
        let fits = |(name, sent): (&String, &Value)| match now.get(name) {
            Some(now) if fields::is_quantity(name) => now.as_i64() <= sent.as_i64(),
            now => now == Some(sent),
        };
        self.products != *products && self.sent.iter().all(fits)
    }
}

/// Where a listing stands, and what it is marked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is to be done.
    Clean,
    /// Changes wait to be sent.
    Dirty,
    /// Etsy does not take the changes.
    Refused,
    /// It is gone at Etsy.
    Deleted,
    /// It is gone at Etsy, and there are changes that were never sent.
    ConflictDeleted,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Clean, Self::Dirty, Self::Refused, Self::Deleted, Self::ConflictDeleted];

    /// Whether there are changes that Etsy does not have: some that wait, some that it refused, or some that came too
    /// late. This is what `dirty` means wherever users meet the word.
    pub fn has_unsent(self) -> bool {
        match self {
            Self::Dirty | Self::Refused | Self::ConflictDeleted => true,
            Self::Clean | Self::Deleted => false,
        }
    }

    /// The mark.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Dirty => "dirty",
            Self::Refused => "refused",
            Self::Deleted => "deleted",
            Self::ConflictDeleted => "conflict_deleted",
        }
    }
}

impl FromStr for Standing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|standing| standing.as_str() == text);
        known.ok_or_else(|| "it is none of clean, dirty, refused, deleted, conflict_deleted".to_owned())
    }
}

impl Listing {
    /// A listing as Etsy said it.
    pub fn new(listing_id: ListingId, remote: Value, hash: String) -> Self {
        Self {
            listing_id,
            remote,
            hash,
            changes: BTreeMap::new(),
            rev: 0,
            uploaded_rev: 0,
            accepts_fee: false,
            sending: None,
            conflicts: Vec::new(),
            error: None,
            deleted_at: None,
        }
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing {
        match (self.deleted_at.is_some(), self.changes.is_empty()) {
            (true, true) => Standing::Deleted,
            (true, false) => Standing::ConflictDeleted,
            (false, true) => Standing::Clean,
            (false, false) if self.error.is_some() => Standing::Refused,
            (false, false) => Standing::Dirty,
        }
    }

    /// What Etsy says now. Changes that Etsy has come to by itself are none any more; quantities aside, which
    /// are differences.
    pub fn seen(&mut self, remote: Value, hash: String, sections: &Sections) {
        let fields = fields::of_remote(&remote, sections);
        (self.remote, self.hash, self.deleted_at) = (remote, hash, None);
        self.changes
            .retain(|name, change| fields::is_quantity(name) || fields.get(name) != Some(&change.value));
        self.settle_revs();
    }

    /// A user's wish. Answers whether anything is different now.
    pub fn wish(&mut self, wish: Wish, sections: &Sections) -> bool {
        let remote = fields::of_remote(&self.remote, sections);
        let rev = self.rev + 1;
        let mut is_changed = false;
        for (name, value) in wish.fields {
            let now = self.changes.get(&name).map(|change| &change.value).or_else(|| remote.get(&name));
            if now == Some(&value) {
                continue;
            }
            is_changed = true;
            // One that is taken back stays a change: it may be on its way to Etsy already, or be there.
            let change = match self.changes.remove(&name) {
                Some(had) => had.again(value, rev),
                None => {
                    let base = remote.get(&name).cloned().unwrap_or(Value::Null);
                    Change { value, base, rev, earlier: Vec::new() }
                }
            };
            self.changes.insert(name, change);
        }
        if is_changed || self.error.is_some() {
            // Whatever was refused may pass now.
            is_changed |= self.error.take().is_some();
            (self.rev, self.accepts_fee) = (rev, self.accepts_fee || wish.accepts_fee);
            self.settle_revs();
        }
        is_changed
    }

    /// The changes up to `rev`: what they are to be, and what it was before.
    pub fn changes_to(&self, rev: u64) -> (Fields, Fields) {
        let due = self.changes.iter().filter(|(_, change)| change.rev <= rev);
        let (mut local, mut base) = (Fields::new(), Fields::new());
        for (name, change) in due {
            local.insert(name.clone(), change.value.clone());
            base.insert(name.clone(), change.base.clone());
        }
        (local, base)
    }

    /// Etsy knows the changes of these fields up to `rev`. What was changed again meanwhile stays, and was
    /// changed from what Etsy has now.
    pub fn sent(&mut self, names: impl Fn(&str) -> bool, rev: u64, sent: &Fields, sections: &Sections) {
        let remote = fields::of_remote(&self.remote, sections);
        let changes = std::mem::take(&mut self.changes);
        for (name, mut change) in changes {
            if !names(&name) {
                self.changes.insert(name, change);
            } else if change.rev > rev {
                let now = sent.get(&name).or_else(|| remote.get(&name));
                change.base = now.cloned().unwrap_or(change.base);
                change.earlier.clear();
                self.changes.insert(name, change);
            }
        }
        self.settle_revs();
    }

    /// The quantities of which fewer are there than were sent, after an answer that never came: buyers may have
    /// bought, or the seller has written a smaller number over ours. Nobody can tell, so the seller is asked.
    pub fn fewer(&self, sent: &Fields, now: &Fields) -> Vec<Conflict> {
        let is_fewer =
            |(name, sent): &(&String, &Value)| fields::is_quantity(name) && now.get(*name) != Some(*sent);
        let conflict = |(name, sent): (&String, &Value)| {
            let base = self.changes.get(name).map_or(Value::Null, |change| change.base.clone());
            let remote = now.get(name).cloned().unwrap_or(Value::Null);
            Conflict { field: name.clone(), base, remote, local: sent.clone() }
        };
        sent.iter().filter(is_fewer).map(conflict).collect()
    }

    /// Etsy's answer to a change of fields: what it names is as it says.
    pub fn answered(&mut self, answer: &Value) {
        if let (Some(remote), Some(answer)) = (self.remote.as_object_mut(), answer.as_object()) {
            for (name, value) in answer {
                remote.insert(name.clone(), value.clone());
            }
        }
        self.hash = hash(&self.remote);
    }

    /// Whether what is at Etsy is an earlier word of our own.
    pub fn is_our_word(&self, conflict: &Conflict) -> bool {
        self.changes.get(&conflict.field).is_some_and(|change| change.earlier.contains(&conflict.remote))
    }

    /// Keeps conflicts for the seller, the newest of each field.
    pub fn conflicted(&mut self, conflicts: Vec<Conflict>) {
        for conflict in conflicts {
            self.conflicts.retain(|had| had.field != conflict.field);
            self.conflicts.push(conflict);
        }
        let surplus = self.conflicts.len().saturating_sub(CONFLICTS_MAX);
        self.conflicts.drain(..surplus);
    }

    fn settle_revs(&mut self) {
        if self.changes.is_empty() {
            (self.uploaded_rev, self.accepts_fee, self.error) = (self.rev, false, None);
        }
    }
}

/// A digest of what Etsy says of a listing.
pub fn hash(remote: &Value) -> String {
    let text = serde_json::to_vec(&Lasting(remote)).unwrap_or_default();
    let digest = Sha256::digest(text);
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A listing without what changes by itself.
struct Lasting<'v>(&'v Value);

impl Serialize for Lasting<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str())))
            }
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remote(title: &str, quantity: i64) -> Value {
        json!({"listing_id": 1, "title": title, "tags": [], "inventory": {"products": [{
            "product_id": 5, "sku": "", "offerings": [{"quantity": quantity, "is_enabled": true,
            "price": {"amount": 100, "divisor": 100}}], "property_values": []}]}})
    }

    fn listing(title: &str) -> Listing {
        let remote = remote(title, 10);
        let hash = hash(&remote);
        Listing::new(1, remote, hash)
    }

    fn wish(name: &str, value: Value) -> Wish {
        Wish { fields: Fields::from([(name.to_owned(), value)]), accepts_fee: false }
    }

    /// Fewer than were sent: bought, or written over by the seller. That is for the seller to say.
    #[test]
    fn fewer_than_were_sent_is_asked_about() {
        let (mut listing, none) = (listing("a"), Sections::new());
        assert!(listing.wish(wish("quantity", json!(12)), &none));
        let sent = Fields::from([("quantity".to_owned(), json!(12))]);
        let now = |quantity: i64| Fields::from([("quantity".to_owned(), json!(quantity))]);
        assert_eq!(listing.fewer(&sent, &now(12)), []);
        let Conflict { field, base, remote, local } = listing.fewer(&sent, &now(3)).remove(0);
        assert_eq!((field.as_str(), base, remote, local), ("quantity", json!(10), json!(3), json!(12)));
    }

    /// Defect 4: an edit that is made while another is on its way stays.
    #[test]
    fn an_edit_during_the_upload_stays_dirty() {
        let (mut listing, none) = (listing("a"), Sections::new());
        assert!(listing.wish(wish("title", json!("b")), &none));
        let rev = listing.rev;
        let (local, base) = listing.changes_to(rev);
        assert_eq!((&local["title"], &base["title"]), (&json!("b"), &json!("a")));
        assert!(listing.wish(wish("title", json!("c")), &none));
        listing.answered(&json!({"title": "b"}));
        listing.sent(|_| true, rev, &local, &none);
        assert_eq!(listing.standing(), Standing::Dirty);
        let (local, base) = listing.changes_to(listing.rev);
        assert_eq!((&local["title"], &base["title"]), (&json!("c"), &json!("b")));
        listing.sent(|_| true, listing.rev, &local, &none);
        assert_eq!((listing.standing(), listing.uploaded_rev), (Standing::Clean, listing.rev));
    }

    #[test]
    fn a_wish_for_what_is_there_changes_nothing() {
        let (mut listing, none) = (listing("a"), Sections::new());
        assert!(!listing.wish(wish("title", json!("a")), &none));
        assert!(listing.wish(wish("title", json!("b")), &none));
    }

    /// A change that is taken back may be on its way by then: it is sent again as it was, and nothing of it is a conflict.
    #[test]
    fn a_change_that_is_taken_back_is_a_change() {
        let (mut listing, none) = (listing("a"), Sections::new());
        assert!(listing.wish(wish("title", json!("b")), &none));
        assert!(listing.wish(wish("title", json!("a")), &none));
        assert_eq!(listing.standing(), Standing::Dirty);
        let (local, base) = listing.changes_to(listing.rev);
        assert_eq!((&local["title"], &base["title"]), (&json!("a"), &json!("a")));
        let at_etsy = |title: &str| Conflict {
            field: "title".to_owned(),
            base: json!("a"),
            remote: json!(title),
            local: json!("a"),
        };
        assert!(listing.is_our_word(&at_etsy("b")) && !listing.is_our_word(&at_etsy("c")));
        listing.sent(|_| true, listing.rev, &local, &none);
        assert_eq!(listing.standing(), Standing::Clean);
    }

    #[test]
    fn what_etsy_has_come_to_by_itself_is_no_change_but_a_quantity_is() {
        let (mut listing, none) = (listing("a"), Sections::new());
        listing.wish(wish("title", json!("b")), &none);
        listing.wish(wish("quantity", json!(7)), &none);
        let now = remote("b", 7);
        listing.seen(now.clone(), hash(&now), &none);
        assert_eq!(listing.changes.keys().collect::<Vec<_>>(), ["quantity"]);
    }

    #[test]
    fn a_refusal_waits_for_the_next_edit() {
        let (mut listing, none) = (listing("a"), Sections::new());
        listing.wish(wish("title", json!("b")), &none);
        listing.error = Some("no".into());
        assert_eq!(listing.standing(), Standing::Refused);
        listing.wish(wish("title", json!("c")), &none);
        assert_eq!(listing.standing(), Standing::Dirty);
    }

    #[test]
    fn what_was_on_its_way_is_told_from_what_somebody_else_wrote() {
        let sent = Fields::from([("quantity".to_owned(), json!(7)), ("price".to_owned(), json!(2.0))]);
        let sending = Sending { rev: 1, products: BTreeSet::from([5]), sent };
        let now = |quantity: i64, price: f64| {
            Fields::from([("quantity".to_owned(), json!(quantity)), ("price".to_owned(), json!(price))])
        };
        let (same, other) = (BTreeSet::from([5]), BTreeSet::from([6]));
        assert!(!sending.has_arrived(&same, &now(7, 2.0)), "nobody has written");
        assert!(sending.has_arrived(&other, &now(7, 2.0)));
        assert!(sending.has_arrived(&other, &now(5, 2.0)), "and two were bought");
        assert!(!sending.has_arrived(&other, &now(7, 3.0)), "the seller has written");
        assert!(!sending.has_arrived(&other, &now(9, 2.0)), "the seller has written");
    }

    #[test]
    fn views_do_not_count_as_a_change() {
        assert_eq!(hash(&json!({"title": "a", "views": 1})), hash(&json!({"title": "a", "views": 2})));
        assert_ne!(hash(&json!({"title": "a"})), hash(&json!({"title": "b"})));
        // What is stored was hashed so: another digest would have every listing compared again.
        let digest = Sha256::digest(r#"{"title":"a"}"#);
        let known = hash(&json!({"title": "a", "views": 9}));
        assert_eq!(known[..4], format!("{:02x}{:02x}", digest[0], digest[1]));
    }
}
