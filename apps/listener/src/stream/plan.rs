//! What a stream asks the server for.
//!
//! Only names of collections are matched by the server, since such a pipeline may change between two openings of one
//! position; what documents are like is matched in process. A pipeline never takes `_id` away, which is the position.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document, doc};

use crate::listener::{Listener, Target};

/// Beyond this many databases their names and those of the collections are asked for apart, which asks for a little more.
const DATABASES_MAX: usize = 50;

/// Which collections a stream hears, and what it leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    places: BTreeSet<(Target, String)>,
    /// Fields whose changes are nobody's business but ours.
    private: BTreeSet<String>,
    /// Whether images from before are wanted.
    pub(crate) images_before: bool,
}

impl Plan {
    pub(crate) fn of<'a>(listeners: impl IntoIterator<Item = &'a Listener>) -> Self {
        let mut plan = Self::default();
        for listener in listeners {
            plan.places.insert((listener.target.clone(), listener.collection.clone()));
            plan.private.extend(listener.status_field.as_ref().map(|field| field.private().to_owned()));
            plan.images_before |= listener.pre_images;
        }
        plan
    }

    /// Fields whose changes trigger nothing.
    pub(crate) fn private(&self) -> Vec<String> {
        self.private.iter().cloned().collect()
    }

    /// Whether whoever follows this plan hears all that the other asks for.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.places.is_superset(&other.places)
            && self.private == other.private
            && (self.images_before || !other.images_before)
    }

    /// The pipeline: changes of these collections, and of the listeners themselves.
    pub(crate) fn pipeline(&self, database: &str, own: &[String]) -> Vec<Document> {
        let mut places = vec![definitions(database)];
        places.extend(self.databases());
        places.extend(self.prefixes());
        let own: Vec<&String> = own.iter().filter(|name| *name != "listeners").collect();
        let ours = doc! { "ns.db": database, "ns.coll": { "$in": own } };
        let mut wanted = doc! { "$or": places, "$nor": [ ours ] };
        if !self.private.is_empty() {
            // As one expression of its own: within `$nor` the server's rewriting for the oplog fails on it.
            let mut all = vec![doc! { "$eq": [ "$operationType", "update" ] }];
            all.extend(only_private(&self.private));
            wanted.insert("$expr", doc! { "$not": [ { "$and": all } ] });
        }
        vec![doc! { "$match": wanted }]
    }

    fn databases(&self) -> Vec<Document> {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (target, collection) in &self.places {
            if let Target::Database(name) = target {
                found.entry(name).or_default().push(collection);
            }
        }
        if found.len() > DATABASES_MAX {
            let collections: BTreeSet<&str> = found.values().flatten().copied().collect();
            let databases: Vec<&str> = found.into_keys().collect();
            let collections: Vec<&str> = collections.into_iter().collect();
            return vec![doc! { "ns.db": { "$in": databases }, "ns.coll": { "$in": collections } }];
        }
        found
            .into_iter()
            .map(|(db, collections)| doc! { "ns.db": db, "ns.coll": { "$in": collections } })
            .collect()
    }

    fn prefixes(&self) -> Vec<Document> {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (target, collection) in &self.places {
            if let Target::Prefix(prefix) = target {
                found.entry(prefix).or_default().push(collection);
            }
        }
        let of = |(prefix, collections): (&str, Vec<&str>)| {
            let begins = format!("^{}", regex::escape(prefix));
            doc! { "ns.db": { "$regex": begins }, "ns.coll": { "$in": collections } }
        };
        found.into_iter().map(of).collect()
    }
}

/// Changes of listeners, but not our heartbeats in them.
fn definitions(database: &str) -> Document {
    let held: BTreeSet<String> = ["lockInfo", "fence"].map(str::to_owned).into();
    let only_held = only_private(&held);
    doc! {
        "ns.db": database, "ns.coll": "listeners",
        "$nor": [ { "operationType": "update", "$expr": { "$and": only_held } } ],
    }
}

/// Conditions under which an update touches only these fields: of all that was set, taken away and cut, each is one
/// of them or within one, by whole segments. A field that came with its parent (`metadata: {listener: …}`) is one, too.
fn only_private(fields: &BTreeSet<String>) -> Vec<Document> {
    let within = |name: &str| {
        let ways = fields.iter().flat_map(|field| {
            let below = doc! { "$eq": [ { "$indexOfBytes": [ name, format!("{field}.") ] }, 0 ] };
            [doc! { "$eq": [ name, field.clone() ] }, below]
        });
        ways.collect::<Vec<Document>>()
    };
    let mut set = within("$$this.k");
    for (parent, child) in fields.iter().filter_map(|field| field.split_once('.')) {
        let names = doc! { "$map": { "input": { "$objectToArray": "$$this.v" }, "in": "$$this.k" } };
        let only = doc! { "$eq": [ names, [child.split('.').next().unwrap_or(child)] ] };
        let is_document = doc! { "$eq": [ { "$type": "$$this.v" }, "object" ] };
        // A condition, since the names of what is no document cannot be asked for.
        if !child.contains('.') {
            set.push(doc! { "$cond": [ { "$and": [ { "$eq": [ "$$this.k", parent ] }, is_document ] }, only, false ] });
        }
    }
    let all = |input: Bson, ways: Vec<Document>| doc! { "$allElementsTrue": [ { "$map": { "input": input, "in": { "$or": ways } } } ] };
    let list = |path: &str| Bson::Document(doc! { "$ifNull": [ path, [] ] });
    let changed = doc! { "$objectToArray": { "$ifNull": [ "$updateDescription.updatedFields", {} ] } };
    vec![
        all(Bson::Document(changed), set),
        all(list("$updateDescription.removedFields"), within("$$this")),
        all(list("$updateDescription.truncatedArrays.field"), within("$$this")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(more: Document) -> Listener {
        let mut document = doc! { "_id": "a", "collection": "people", "jobName": "j" };
        document.extend(more);
        Listener::read(&document).unwrap()
    }

    #[test]
    fn b21_a_hundred_listeners_are_one_pipeline() {
        let listeners: Vec<Listener> =
            (0..100).map(|n| listener(doc! { "_id": n, "filter": { "n": n } })).collect();
        let plan = Plan::of(&listeners);
        assert_eq!(plan, Plan::of([&listeners[0]]));
        let pipeline = plan.pipeline("airank", &["jobs".into(), "listeners".into()]);
        let text = format!("{pipeline:?}");
        assert!(text.contains("^workspace_") && text.contains("people") && text.contains("jobs"), "{text}");
        let wider = Plan::of([&listeners[0], &listener(doc! { "database": "x" })]);
        assert!(wider.covers(&plan) && !plan.covers(&wider));
    }

    #[test]
    fn many_databases_are_asked_for_together() {
        let of = |n: i32| listener(doc! { "database": format!("w{n}") });
        let few: Vec<Listener> = (0..3).map(of).collect();
        let many: Vec<Listener> = (0..200).map(of).collect();
        assert_eq!(Plan::of(&few).databases().len(), 3);
        assert_eq!(Plan::of(&many).databases().len(), 1);
    }
}
