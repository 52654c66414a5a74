//! What a stream asks the server for.
//!
//! In two stages, since the server tests the first on every entry of its log, whosever it is: a few names of collections
//! (or of databases), which cost a comparison each. What is left is told apart exactly by the second, which the server
//! does not move to the front. Both know names alone, since such a pipeline may change between two openings of one
//! position; what documents are like is matched in process. A pipeline never takes `_id` away, which is the position.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document, doc};

use crate::listener::{Listener, Target};

/// The most names that each entry of the log is compared with: beyond, it is cheaper to make events of all of them.
const NAMES_MAX: usize = 64;
/// Collections of ours that have the locks of lanes.
pub(super) const OF_LOCKS: [&str; 2] = ["listener_partitions", "listeners"];

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
        let mut coarse = self.coarse(database, own);
        if !self.private.is_empty() {
            // As one expression of its own: within `$nor` the server's rewriting for the oplog fails on it.
            let mut all = vec![doc! { "$eq": [ "$operationType", "update" ] }];
            all.extend(only_private(&self.private));
            coarse.insert("$expr", doc! { "$not": [ { "$and": all } ] });
        }
        let wanted = doc! { "$cond": [ self.exact(database, own), "$$KEEP", "$$PRUNE" ] };
        vec![doc! { "$match": coarse }, doc! { "$redact": wanted }]
    }

    /// What leaves out most of what others write, with few names.
    fn coarse(&self, database: &str, own: &[String]) -> Document {
        let mut collections: BTreeSet<&str> = OF_LOCKS.into();
        let mut databases: Option<BTreeSet<&str>> = Some([database].into());
        for (target, collection) in &self.places {
            collections.insert(collection);
            databases = match target {
                Target::Database(name) => databases.map(|mut some| {
                    some.insert(name);
                    some
                }),
                // Which they are is not known.
                Target::Prefix(_) => None,
            };
        }
        let databases =
            databases.filter(|some| some.len() + 1 < collections.len() && some.len() <= NAMES_MAX);
        let ours = doc! { "ns.db": database, "ns.coll": { "$in": others(own) } };
        match databases {
            Some(some) => doc! { "ns.db": { "$in": Vec::from_iter(some) }, "$nor": [ ours ] },
            None if collections.len() <= NAMES_MAX => {
                doc! { "ns.coll": { "$in": Vec::from_iter(collections) } }
            }
            None => doc! { "$nor": [ ours ] },
        }
    }

    /// The condition under which an event is one that somebody waits for.
    fn exact(&self, database: &str, own: &[String]) -> Document {
        let (mut whole, mut of_prefix) = (Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
        for (target, collection) in &self.places {
            match target {
                Target::Database(name) => whole.push(format!("{name}.{collection}")),
                Target::Prefix(prefix) => of_prefix.entry(prefix).or_default().push(collection),
            }
        }
        let mut ways = Vec::new();
        if !whole.is_empty() {
            ways.push(doc! { "$in": [ { "$concat": [ "$ns.db", ".", "$ns.coll" ] }, whole ] });
        }
        for (prefix, collections) in of_prefix {
            let begins = doc! { "$eq": [ { "$indexOfBytes": [ "$ns.db", prefix ] }, 0 ] };
            ways.push(doc! { "$and": [ begins, { "$in": [ "$ns.coll", collections ] } ] });
        }
        let is_home = doc! { "$eq": [ "$ns.db", database ] };
        let ours = doc! { "$and": [ is_home, { "$in": [ "$ns.coll", own ] } ] };
        let theirs = doc! { "$and": [ { "$or": ways }, { "$not": [ ours ] } ] };
        doc! { "$or": [ theirs, definitions(database), releases(database) ] }
    }
}

/// Our own collections but those that have locks.
fn others(own: &[String]) -> Vec<&str> {
    own.iter().map(String::as_str).filter(|name| !OF_LOCKS.contains(name)).collect()
}

/// Locks that were let go: whoever waits for one takes it at once.
fn releases(database: &str) -> Document {
    let removed = doc! { "$ifNull": [ "$updateDescription.removedFields", [] ] };
    doc! { "$and": [
        { "$eq": [ "$ns.db", database ] }, { "$in": [ "$ns.coll", OF_LOCKS.to_vec() ] }, { "$in": [ "lockInfo", removed ] },
    ] }
}

/// Changes of listeners, but not our heartbeats in them.
fn definitions(database: &str) -> Document {
    let held: BTreeSet<String> = ["lockInfo", "fence"].map(str::to_owned).into();
    let mut beat = vec![doc! { "$eq": [ "$operationType", "update" ] }];
    beat.extend(only_private(&held));
    doc! { "$and": [
        { "$eq": [ "$ns.db", database ] }, { "$eq": [ "$ns.coll", "listeners" ] }, { "$not": [ { "$and": beat } ] },
    ] }
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
        assert!(text.contains("workspace_") && text.contains("people") && text.contains("jobs"), "{text}");
        let wider = Plan::of([&listeners[0], &listener(doc! { "database": "x" })]);
        assert!(wider.covers(&plan) && !plan.covers(&wider));
    }

    /// Every entry of the log is compared with the names of the first stage: there are few of them, whatever is watched.
    #[test]
    fn what_others_write_is_left_out_by_few_names() {
        let first = |listeners: &[Listener]| {
            let pipeline = Plan::of(listeners).pipeline("airank", &["jobs".into(), "listeners".into()]);
            pipeline[0].get_document("$match").unwrap().clone()
        };
        let names = |of: &Document, field: &str| {
            of.get_document(field).map_or(0, |some| some.get_array("$in").unwrap().len())
        };
        let many = |of: &dyn Fn(i32) -> Document| (0..500).map(|n| listener(of(n))).collect::<Vec<_>>();
        let tenants = first(&many(&|n| doc! { "database": format!("w{n}") }));
        assert_eq!((names(&tenants, "ns.coll"), names(&tenants, "ns.db")), (3, 0), "{tenants}");
        let prefix = first(&many(&|n| doc! { "collection": format!("c{}", n % 5) }));
        assert_eq!((names(&prefix, "ns.coll"), names(&prefix, "ns.db")), (7, 0), "{prefix}");
        let one = first(&many(&|n| doc! { "database": "w", "collection": format!("c{n}") }));
        assert_eq!((names(&one, "ns.coll"), names(&one, "ns.db")), (0, 2), "{one}");
        let both = first(&many(&|n| doc! { "database": format!("w{n}"), "collection": format!("c{n}") }));
        assert_eq!((names(&both, "ns.coll"), names(&both, "ns.db")), (0, 0), "{both}");
        assert!(both.contains_key("$nor"), "{both}");
    }
}
