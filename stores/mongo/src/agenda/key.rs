//! Rows with a key: workers of ours run one of them at a time.
//!
//! A claim leaves out rows whose key a locked row has, whoever locked it, and takes the first of the others. That is
//! a look, and two claims may look at once; so the key is in the lease, and an index lets one lease have it. Whoever
//! comes second gives its row back. Workers of Node know nothing of keys: they may begin a row beside ours.

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;

use super::lease::Lease;
use super::source::AgendaRows;
use crate::server;

/// How many locked rows are looked at for their keys: those that were locked or touched last. (Workers of Node may have
/// locked thousands that they do not run yet.)
const HELD_MAX: i64 = 1_000;

/// The key of a row: the values of these fields, in their order.
pub(super) fn key_of(row: &Document, paths: &[String]) -> Option<Document> {
    if paths.is_empty() {
        return None;
    }
    let value = |(at, path): (usize, &String)| Some((at.to_string(), value_at(row, path)?.clone()));
    paths.iter().enumerate().map(value).collect()
}

fn value_at<'a>(row: &'a Document, path: &str) -> Option<&'a Bson> {
    let mut names = path.split('.');
    let first = row.get(names.next()?);
    let found = names.try_fold(first?, |value, name| value.as_document()?.get(name));
    found.filter(|value| **value != Bson::Null)
}

/// What of the rows that are due is left out: they wait for another.
pub(super) struct Apart<'a> {
    paths: &'a [String],
    /// Keys that are held, or that this claim has a row of.
    keys: Vec<Document>,
    /// Rows without a key that this claim has.
    rows: Vec<ObjectId>,
}

impl<'a> Apart<'a> {
    pub(super) fn new(paths: &'a [String]) -> Self {
        Self { paths, keys: Vec::new(), rows: Vec::new() }
    }

    /// Whether rows have keys at all.
    pub(super) fn is_needed(&self) -> bool {
        !self.paths.is_empty()
    }

    pub(super) fn add_held(&mut self, keys: Vec<Document>) {
        for key in keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
    }

    /// Whether the claim may have this row. It has it then.
    pub(super) fn takes(&mut self, row: &Document) -> bool {
        match key_of(row, self.paths) {
            Some(key) if self.keys.contains(&key) => return false,
            Some(key) => self.keys.push(key),
            None => self.rows.extend(row.get_object_id("_id").ok()),
        }
        true
    }

    /// A filter without what is left out.
    pub(super) fn leave_out(&self, mut filter: Document) -> Document {
        if !self.keys.is_empty() {
            let same = |key: &Document| {
                let values = self.paths.iter().zip(key.values());
                values
                    .map(|(path, value)| (path.clone(), Bson::from(doc! { "$eq": value.clone() })))
                    .collect::<Document>()
            };
            filter.insert("$nor", self.keys.iter().map(same).collect::<Vec<_>>());
        }
        if !self.rows.is_empty() {
            filter.insert("_id", doc! { "$type": "objectId", "$nin": &self.rows });
        }
        filter
    }
}

impl AgendaRows {
    /// The keys of rows that somebody has locked. A lock that has run out holds nobody back.
    pub(super) async fn locked_keys(&self, now: DateTime) -> Result<Vec<Document>, Error> {
        let locked = doc! { "lockedAt": { "$type": "date", "$gt": self.deadline(now) } };
        let keys: Document = self.options.key.iter().map(|path| (path.clone(), Bson::Int32(1))).collect();
        let found =
            self.rows.find(locked).sort(doc! { "lockedAt": -1 }).limit(HELD_MAX).projection(keys).await?;
        let rows: Vec<Document> = found.try_collect().await?;
        Ok(rows.iter().filter_map(|row| key_of(row, &self.options.key)).collect())
    }

    /// Gives rows back that were taken while others of their keys are held. Where those are held no more, and nobody has
    /// said so (a crash, a row that was deleted), their leases let go of the keys: the next claim gets the rows.
    pub(super) async fn step_back(&self, leases: &[&Lease], mark: &str) -> Result<(), Error> {
        let back = |lease: &&Lease| {
            let ours = doc! { "_id": lease.id, "lockedAt": lease.locked_at, "lastModifiedBy": mark };
            let due_at = lease.due_at.unwrap_or(lease.locked_at);
            doc! { "q": ours, "u": { "$set": { "lockedAt": Bson::Null, "nextRunAt": due_at } } }
        };
        server::update(&self.database, self.rows.name(), leases.iter().map(back).collect(), None).await?;
        let keys: Vec<&Document> = leases.iter().filter_map(|lease| lease.key.as_ref()).collect();
        let holders = self.leases.find(doc! { "key": { "$in": keys } }).await?;
        let holders: Vec<Lease> = holders.try_collect().await?;
        let rows = self.rows_of(holders.iter().map(|lease| lease.id)).await?;
        let is_held = |lease: &&Lease| {
            let locked_at = rows.get(&lease.id).and_then(|row| row.get_datetime("lockedAt").ok());
            lease.held && locked_at == Some(&lease.locked_at)
        };
        // One that was renewed since it was read has another lock.
        let let_go = |lease: &Lease| {
            let as_read = doc! { "_id": lease.id, "fence": lease.fence, "lockedAt": lease.locked_at };
            doc! { "q": as_read, "u": { "$set": { "key": Bson::Null } } }
        };
        let over: Vec<Document> = holders.iter().filter(|lease| !is_held(lease)).map(let_go).collect();
        if !over.is_empty() {
            server::update(&self.database, self.leases.name(), over, None).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_values_of_all_its_fields() {
        let paths = ["data.place.id".to_owned(), "data.n".to_owned()];
        let row = doc! { "data": { "place": { "id": "x" }, "n": 7 } };
        assert_eq!(key_of(&row, &paths), Some(doc! { "0": "x", "1": 7 }));
        for row in [doc! { "data": { "n": 7 } }, doc! { "data": { "place": "x", "n": 7 } }, doc! {}] {
            assert_eq!(key_of(&row, &paths), None, "{row}");
        }
        let null = doc! { "data": { "place": { "id": Bson::Null }, "n": 7 } };
        assert_eq!(key_of(&null, &paths), None);
        assert_eq!(key_of(&row, &[]), None);
    }

    #[test]
    fn a_claim_has_one_row_of_a_key() {
        let paths = ["data.id".to_owned()];
        let row = |id: &str| doc! { "_id": ObjectId::from_bytes([1; 12]), "data": { "id": id } };
        let mut apart = Apart::new(&paths);
        apart.add_held(vec![doc! { "0": "held" }]);
        assert!(!apart.takes(&row("held")));
        assert!(apart.takes(&row("free")) && !apart.takes(&row("free")));
        assert!(apart.takes(&doc! { "_id": ObjectId::from_bytes([2; 12]) }));
        let filter = apart.leave_out(doc! { "name": "x" });
        let nor = vec![doc! { "data.id": { "$eq": "held" } }, doc! { "data.id": { "$eq": "free" } }];
        let rows = vec![ObjectId::from_bytes([2; 12])];
        assert_eq!(filter, doc! { "name": "x", "$nor": nor, "_id": { "$type": "objectId", "$nin": rows } });
    }
}
