//! Reading a listener's document. It may have been written by any driver, by hand, or by the original.

use std::collections::BTreeSet;

use mongodb::bson::{Bson, Document};
use windlass_engine::{BudgetName, QueueName};

use super::target::TENANT;
use super::{Dialect, Listener, OnResume, Once, Payload, Target, Trigger};
use crate::event::Operation;
use crate::filter::Filter;
use crate::status_field::{DEFAULT, StatusField};

/// The queue of jobs in the store when nothing is said.
pub(crate) const QUEUE: &str = "listener";
/// The most parts that a listener may be split into.
pub(super) const PARTITIONS_MAX: u32 = 64;

impl Listener {
    /// Reads a document. Whatever is wrong is said at once, for people.
    pub(crate) fn read(document: &Document) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let mut text = |name: &str| match document.get(name) {
            Some(Bson::String(text)) if !text.trim().is_empty() => text.clone(),
            Some(_) => {
                wrong.push(format!("{name} must be a text that is not empty"));
                String::new()
            }
            None => {
                wrong.push(format!("{name} is missing"));
                String::new()
            }
        };
        let (collection, job_name) = (text("collection"), text("jobName"));
        let metadata = metadata(document, &mut wrong);
        let operations = operations(document.get("operationType"), &mut wrong);
        let query = query(document, &mut wrong);
        let filter = Filter::parse(&query).unwrap_or_else(|why| {
            wrong.push(format!("filter: {why}"));
            Filter::All(Vec::new())
        });
        let key = document.get("_id").cloned().unwrap_or(Bson::Null);
        let listener = Self {
            target: target(document, &metadata, &mut wrong),
            status_field: status_field(document, &key, &mut wrong),
            filter: typed(filter, &metadata),
            dialect: word(
                document,
                "dialect",
                &[("document", Dialect::Document), ("event", Dialect::Event)],
                &mut wrong,
            ),
            once: word(
                document,
                "once",
                &[("change", Once::Change), ("document", Once::Document)],
                &mut wrong,
            ),
            payload: word(
                document,
                "payload",
                &[("small", Payload::Small), ("full", Payload::Full)],
                &mut wrong,
            ),
            on_resume: word(
                document,
                "onResume",
                &[("skip", OnResume::Skip), ("catch-up", OnResume::CatchUp)],
                &mut wrong,
            ),
            trigger: word(
                document,
                "trigger",
                &[("level", Trigger::Level), ("edge", Trigger::Edge)],
                &mut wrong,
            ),
            is_active: flag(document, "isActive", true, &mut wrong),
            backfill: flag(document, "backfill", false, &mut wrong),
            pre_images: flag(document, "preImages", false, &mut wrong),
            partitions: partitions(document.get("partitions"), &mut wrong),
            queue: queue(document, &mut wrong),
            priority: priority(document, &mut wrong),
            budgets: budgets(document, &mut wrong),
            concurrency: concurrency(document, &mut wrong),
            key,
            collection,
            operations,
            query,
            job_name,
            metadata,
        };
        if wrong.is_empty() { Ok(listener) } else { Err(wrong) }
    }
}

/// The parts of a document that say what a listener does: not who holds it, nor when it was written.
pub(crate) fn applied(document: &Document) -> Document {
    let held = ["lockInfo", "fence", "createdAt", "updatedAt", "__v"];
    let parts = document.iter().filter(|(name, _)| !held.contains(&name.as_str()));
    parts.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn operations(value: Option<&Bson>, wrong: &mut Vec<String>) -> BTreeSet<Operation> {
    let words: Vec<&Bson> = match value {
        None | Some(Bson::Null) => {
            return BTreeSet::from([Operation::Insert, Operation::Update, Operation::Replace]);
        }
        Some(Bson::Array(items)) => items.iter().collect(),
        Some(one) => vec![one],
    };
    let mut found = BTreeSet::new();
    for word in &words {
        match word.as_str().and_then(Operation::of) {
            Some(operation) => {
                found.insert(operation);
            }
            None => wrong.push(format!("operationType {word} is not one of insert, update, replace, delete")),
        }
    }
    if words.is_empty() {
        wrong.push("operationType is an empty list, which never matches".to_owned());
    }
    if found.contains(&Operation::Update) {
        found.insert(Operation::Replace);
    }
    found
}

fn query(document: &Document, wrong: &mut Vec<String>) -> Document {
    match document.get("filter") {
        None | Some(Bson::Null) => Document::new(),
        Some(Bson::Document(query)) => query.clone(),
        Some(_) => {
            wrong.push("filter must be a document".to_owned());
            Document::new()
        }
    }
}

fn metadata(document: &Document, wrong: &mut Vec<String>) -> Document {
    match document.get("metadata") {
        None | Some(Bson::Null) => Document::new(),
        Some(Bson::Document(metadata)) => metadata.clone(),
        Some(_) => {
            wrong.push("metadata must be a document".to_owned());
            Document::new()
        }
    }
}

fn target(document: &Document, metadata: &Document, wrong: &mut Vec<String>) -> Target {
    let mut name = |name: &str| match document.get(name) {
        None | Some(Bson::Null) => None,
        Some(Bson::String(text)) => Some(text.clone()),
        Some(_) => {
            wrong.push(format!("{name} must be a text"));
            None
        }
    };
    let target = match (name("database"), name("databasePrefix")) {
        (Some(_), Some(_)) => {
            wrong.push("database and databasePrefix are both there; keep one of them".to_owned());
            return Target::Prefix(TENANT.to_owned());
        }
        (Some(name), None) => Target::Database(name),
        (None, Some(prefix)) => Target::Prefix(prefix),
        (None, None) => match metadata.get("workspaceId") {
            None | Some(Bson::Null) => Target::Prefix(TENANT.to_owned()),
            Some(id) => Target::Database(format!("{TENANT}{}", crate::event::id_text(id))),
        },
    };
    wrong.extend(target.problem());
    target
}

/// The databases that a document names, or means, for people; also of one that is refused for another reason. Nothing
/// where that cannot be told.
pub(crate) fn databases(document: &Document) -> Option<String> {
    let mut wrong = Vec::new();
    let metadata = metadata(document, &mut wrong);
    let target = target(document, &metadata, &mut wrong);
    wrong.is_empty().then(|| target.text())
}

/// Missing is the default, null is off.
fn status_field(document: &Document, key: &Bson, wrong: &mut Vec<String>) -> Option<StatusField> {
    let path = match document.get("statusField") {
        None => DEFAULT.to_owned(),
        Some(Bson::Null) => return None,
        Some(Bson::String(path)) => path.replace("<id>", &crate::event::id_text(key)),
        Some(_) => {
            wrong.push("statusField must be a path, or null for no status".to_owned());
            return None;
        }
    };
    StatusField::new(&path).map_err(|why| wrong.push(why)).ok()
}

/// A listener with a type of objects wants documents of that type; the original's rule.
fn typed(filter: Filter, metadata: &Document) -> Filter {
    let any = metadata.get_bool("handleAnyObjectType").unwrap_or(false);
    let Some(own) = metadata.get("objectType").filter(|own| !matches!(own, Bson::Null) && !any) else {
        return filter;
    };
    let mut types = vec![own.clone()];
    types.extend(metadata.get_array("mappedSourceTypes").cloned().unwrap_or_default());
    let choices = mongodb::bson::doc! { "metadata.objectType": { "$in": types } };
    match Filter::parse(&choices) {
        Ok(typed) => Filter::All(vec![filter, typed]),
        Err(_) => filter,
    }
}

fn word<T: Copy>(document: &Document, name: &str, words: &[(&str, T)], wrong: &mut Vec<String>) -> T {
    let said = match document.get(name) {
        None | Some(Bson::Null) => return words[0].1,
        Some(said) => said,
    };
    match words.iter().find(|(word, _)| said.as_str() == Some(word)) {
        Some((_, meant)) => *meant,
        None => {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            wrong.push(format!("{name} must be one of {}", known.join(", ")));
            words[0].1
        }
    }
}

fn flag(document: &Document, name: &str, default: bool, wrong: &mut Vec<String>) -> bool {
    match document.get(name) {
        None | Some(Bson::Null) => default,
        Some(Bson::Boolean(flag)) => *flag,
        Some(_) => {
            wrong.push(format!("{name} must be true or false"));
            default
        }
    }
}

fn queue(document: &Document, wrong: &mut Vec<String>) -> String {
    let name = match document.get("queue") {
        None | Some(Bson::Null) => return QUEUE.to_owned(),
        Some(name) => name.as_str().unwrap_or_default(),
    };
    if let Err(why) = QueueName::new(name) {
        wrong.push(why.to_string());
    }
    name.to_owned()
}

fn priority(document: &Document, wrong: &mut Vec<String>) -> i16 {
    let number = match document.get("priority") {
        None | Some(Bson::Null) => return 0,
        Some(value) => whole(value),
    };
    number.and_then(|number| i16::try_from(number).ok()).unwrap_or_else(|| {
        wrong.push("priority must be a whole number from -32768 to 32767".to_owned());
        0
    })
}

fn budgets(document: &Document, wrong: &mut Vec<String>) -> Vec<String> {
    let names = match document.get("budgets") {
        None | Some(Bson::Null) => return Vec::new(),
        Some(Bson::Array(names)) => names,
        Some(_) => {
            wrong.push("budgets must be a list of names".to_owned());
            return Vec::new();
        }
    };
    let mut found = BTreeSet::new();
    for name in names {
        let name = name.as_str().unwrap_or_default();
        match BudgetName::new(name) {
            Ok(_) => _ = found.insert(name.to_owned()),
            Err(why) => wrong.push(why.to_string()),
        }
    }
    found.into_iter().collect()
}

fn concurrency(document: &Document, wrong: &mut Vec<String>) -> Option<u32> {
    let number = match document.get("concurrency") {
        None | Some(Bson::Null) => return None,
        Some(value) => {
            whole(value).and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
        }
    };
    if number.is_none() {
        wrong.push("concurrency must be a whole number from 1 on".to_owned());
    }
    let id = document.get("_id").map(crate::event::id_text).unwrap_or_default();
    if let Err(why) = BudgetName::new(format!("listener:{id}")) {
        wrong.push(format!("concurrency cannot be limited for this _id: {why}"));
    }
    number
}

fn partitions(value: Option<&Bson>, wrong: &mut Vec<String>) -> u32 {
    let number = match value {
        None | Some(Bson::Null) => return 1,
        Some(value) => whole(value),
    };
    let fits = |number: &u32| (1..=PARTITIONS_MAX).contains(number);
    number.and_then(|number| u32::try_from(number).ok()).filter(fits).unwrap_or_else(|| {
        wrong.push(format!("partitions must be a whole number from 1 to {PARTITIONS_MAX}"));
        1
    })
}

/// A whole number of whatever type; what a shell writes is a double.
fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => Some(*number as i64).filter(|whole| *whole as f64 == *number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::bson;

    use super::*;

    /// What was meant for one database must never become every tenant.
    #[test]
    fn a_target_of_another_type_is_refused() {
        let read = |more: Document| {
            let mut document = mongodb::bson::doc! { "collection": "people", "jobName": "j" };
            document.extend(more);
            (databases(&document), Listener::read(&document).err().unwrap_or_default().join("; "))
        };
        let tenants = (Some("workspace_*".to_owned()), String::new());
        assert_eq!(read(Document::new()), tenants);
        assert_eq!(read(mongodb::bson::doc! { "database": Bson::Null, "metadata": Bson::Null }), tenants);
        for name in ["database", "databasePrefix", "metadata"] {
            let (databases, why) = read(mongodb::bson::doc! { name: 5 });
            assert!(databases.is_none() && why.contains(&format!("{name} must be a ")), "{why}");
        }
        let both = mongodb::bson::doc! { "database": "a", "databasePrefix": "b" };
        assert!(read(both).0.is_none());
        let broken = mongodb::bson::doc! { "database": "a", "operationType": ["drop"] };
        assert_eq!(read(broken).0.as_deref(), Some("a"), "what is wrong elsewhere hides nothing");
    }

    #[test]
    fn a_priority_is_a_whole_number() {
        let read = |value: Bson| {
            let mut wrong = Vec::new();
            let priority = priority(&mongodb::bson::doc! { "priority": value }, &mut wrong);
            (priority, wrong.len())
        };
        for (value, is) in [(bson!(null), 0), (bson!(3), 3), (bson!(-3_i64), -3), (bson!(3.0), 3)] {
            assert_eq!(read(value), (is, 0));
        }
        for value in [bson!(true), bson!([1]), bson!({ "a": 1 }), bson!("3"), bson!(1.5), bson!(40_000)] {
            assert_eq!(read(value.clone()), (0, 1), "{value}");
        }
    }
}
