//! What can never match is refused when a listener is made, with the reason.

use mongodb::bson::{Bson, Document};

use super::{Dialect, Listener};
use crate::event::{Operation, id_text};
use crate::filter::Test;

/// Names that an event begins with.
const EVENT_NAMES: [&str; 9] = [
    "_id",
    "operationType",
    "clusterTime",
    "wallTime",
    "ns",
    "documentKey",
    "fullDocument",
    "fullDocumentBeforeChange",
    "updateDescription",
];
/// Names that show that a filter was meant for the event.
const ONLY_OF_EVENTS: [&str; 5] =
    ["operationType", "fullDocument", "updateDescription", "documentKey", "fullDocumentBeforeChange"];

/// Another listener, as far as it can be in the way.
pub(crate) struct Neighbour<'a>(pub(crate) &'a Listener);

/// Reads a document as a new listener, and says all that is wrong with it. `own` are names of the listener's own
/// collections in its own database, whose changes no listener hears.
pub(crate) fn validate(
    document: &Document,
    own_database: &str,
    own: &[String],
    neighbours: &[Neighbour<'_>],
) -> Result<Listener, Vec<String>> {
    let listener = Listener::read(document)?;
    let mut wrong = Vec::new();
    collection_fits(&listener, own_database, own, &mut wrong);
    match listener.dialect {
        Dialect::Document => document_paths_fit(&listener, &mut wrong),
        Dialect::Event => event_paths_fit(&listener, &mut wrong),
    }
    deletes_fit(&listener, &mut wrong);
    neighbours_fit(&listener, neighbours, &mut wrong);
    if wrong.is_empty() { Ok(listener) } else { Err(wrong) }
}

fn collection_fits(listener: &Listener, own_database: &str, own: &[String], wrong: &mut Vec<String>) {
    let name = &listener.collection;
    if name.starts_with("system.") || name.contains(['$', '\0']) {
        wrong.push(format!("collection {name:?}: no stream sees the server's own collections"));
    }
    if listener.target.includes(own_database) && own.contains(name) {
        wrong.push(format!(
            "{own_database}.{name} is written by this service itself, and its changes are heard by nobody"
        ));
    }
}

fn head(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn document_paths_fit(listener: &Listener, wrong: &mut Vec<String>) {
    for path in listener.filter.paths() {
        if ONLY_OF_EVENTS.contains(&head(&path)) {
            wrong.push(format!(
                "filter: {path} is a path of an event, and this filter is of documents, so that it never matches; \
                 say dialect: \"event\", or leave out {}",
                head(&path)
            ));
        }
    }
}

fn event_paths_fit(listener: &Listener, wrong: &mut Vec<String>) {
    let operations = &listener.operations;
    listener.filter.each_field(&mut |path, tests| {
        match head(path) {
            // What the type of objects adds is of documents, and is matched so.
            "metadata" if path == "metadata.objectType" => {}
            name if !EVENT_NAMES.contains(&name) => wrong.push(format!(
                "filter: no event has {path}, so that it never matches; say fullDocument.{path}, or dialect: \"document\""
            )),
            "updateDescription" if !operations.contains(&Operation::Update) => {
                wrong.push(format!("filter: {path} is only in updates, which operationType leaves out, so that it never matches"));
            }
            "updateDescription" if path == "updateDescription.updatedFields" => {
                let by_name = tests.iter().any(|test| !matches!(test, Test::Exists(_) | Test::Ne(_) | Test::Nin(_) | Test::Not(_)));
                if by_name {
                    wrong.push(
                        "filter: updateDescription.updatedFields is a document of paths and values, so that it equals \
                         no list of names and never matches; say updateDescription.updatedFields.NAME: {$exists: true}"
                            .to_owned(),
                    );
                }
            }
            "operationType" => operation_fits(listener, tests, wrong),
            "fullDocument" if operations.iter().all(|operation| *operation == Operation::Delete) => {
                wrong.push(format!("filter: {path} is not in deletes, so that it never matches; say fullDocumentBeforeChange, with preImages: true"));
            }
            _ => {}
        }
    });
}

fn operation_fits(listener: &Listener, tests: &[Test], wrong: &mut Vec<String>) {
    let passes = |operation: &Operation| {
        let word = Bson::String(operation.word().to_owned());
        tests.iter().all(|test| test.passes(&[&word]))
    };
    if !listener.operations.iter().any(passes) {
        wrong.push("filter: operationType asks for what the listener's operationType leaves out, so that it never matches".to_owned());
    }
}

/// A deleted document is gone: only its key is left, unless the collection keeps images from before.
fn deletes_fit(listener: &Listener, wrong: &mut Vec<String>) {
    if !listener.operations.contains(&Operation::Delete) || listener.pre_images {
        return;
    }
    let needs = |path: &str| match listener.dialect {
        Dialect::Document => head(path) != "_id",
        Dialect::Event => matches!(head(path), "fullDocument" | "fullDocumentBeforeChange"),
    };
    if let Some(path) = listener.filter.paths().iter().find(|path| needs(path)) {
        wrong.push(format!(
            "filter: {path} is not known of a deleted document, so that deletes never match. Make a listener of its own for \
             deletes with a filter on _id or none, or switch on changeStreamPreAndPostImages for the collection and say preImages: true"
        ));
    }
}

fn neighbours_fit(listener: &Listener, neighbours: &[Neighbour<'_>], wrong: &mut Vec<String>) {
    let Some(field) = &listener.status_field else { return };
    for Neighbour(other) in neighbours {
        let same_place = other.collection == listener.collection && other.target.meets(&listener.target);
        if other.key != listener.key && same_place && other.status_field.as_ref() == Some(field) {
            wrong.push(format!(
                "listener {} watches {} of {} with the same statusField {}, so that each would overwrite what the other wrote; \
                 say another statusField, such as \"metadata.listeners.<id>\", or null for none",
                id_text(&other.key), other.collection, other.target.text(), field.path()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn problems(document: Document) -> String {
        let own = vec!["jobs".to_owned(), "listeners".to_owned()];
        match validate(&document, "airank", &own, &[]) {
            Ok(_) => String::new(),
            Err(wrong) => wrong.join("\n"),
        }
    }

    fn with(more: Document) -> Document {
        let mut document = doc! { "_id": "a", "collection": "people", "jobName": "j" };
        document.extend(more);
        document
    }

    #[test]
    fn the_originals_listeners_are_understood() {
        for more in [
            doc! {},
            doc! { "operationType": "insert", "filter": { "status": "received", "isProcessed": false } },
            doc! { "operationType": ["insert", "update"], "metadata": { "workspaceId": "64", "objectType": "person" } },
            doc! { "filter": { "fullDocument.x": 1 }, "dialect": "event" },
            doc! { "operationType": ["delete"] },
            doc! { "operationType": ["delete"], "filter": { "_id": { "$gt": 5 } } },
            doc! { "operationType": ["update"], "dialect": "event", "filter": { "updateDescription.updatedFields.a.b": { "$exists": true } } },
        ] {
            assert_eq!(problems(with(more.clone())), "", "{more}");
        }
        let read =
            Listener::read(&with(doc! { "operationType": ["update"], "metadata": { "workspaceId": "64" } }))
                .unwrap();
        assert!(read.operations.contains(&Operation::Replace), "an update may be written as a whole");
        assert_eq!(read.target, super::super::Target::Database("workspace_64".into()));
        assert_eq!(read.status_field.unwrap().path(), "metadata.listener");
    }

    #[test]
    fn b11_what_can_never_match_is_refused_with_the_reason() {
        for (more, word) in [
            (
                doc! { "dialect": "event", "filter": { "updateDescription.updatedFields": { "$in": ["a"] } } },
                "NAME: {$exists: true}",
            ),
            (doc! { "filter": { "fullDocument.a": 1 } }, "dialect: \"event\""),
            (doc! { "dialect": "event", "filter": { "a": 1 } }, "fullDocument.a"),
            (
                doc! { "dialect": "event", "operationType": ["insert"], "filter": { "updateDescription.removedFields": "x" } },
                "only in updates",
            ),
            (
                doc! { "dialect": "event", "operationType": ["insert"], "filter": { "operationType": "delete" } },
                "leaves out",
            ),
            (doc! { "operationType": ["delete"], "filter": { "a": 1 } }, "deleted document"),
            (doc! { "operationType": [] }, "empty list"),
            (doc! { "operationType": ["drop"] }, "drop"),
            (doc! { "filter": { "$where": "1" } }, "$where"),
            (doc! { "filter": { "a": { "$in": [] } } }, "never matches"),
            (doc! { "database": "a", "databasePrefix": "b" }, "both there"),
            (doc! { "database": "admin" }, "own databases"),
            (doc! { "collection": "jobs", "database": "airank" }, "heard by nobody"),
            (doc! { "collection": "system.views" }, "own collections"),
            (doc! { "collection": 5 }, "collection must be"),
            (doc! { "partitions": 1000 }, "partitions"),
            (doc! { "once": "never" }, "once must be"),
            (doc! { "statusField": "a..b" }, "no path"),
        ] {
            let found = problems(with(more.clone()));
            assert!(found.contains(word), "{more}: {found:?}");
        }
    }

    #[test]
    fn b19_two_listeners_of_one_collection_need_two_fields() {
        let first = Listener::read(&with(doc! {})).unwrap();
        let second = |more: Document| {
            let mut document = with(doc! { "_id": "b", "filter": { "x": 1 } });
            document.extend(more);
            validate(&document, "airank", &[], &[Neighbour(&first)])
                .map(|_| ())
                .map_err(|wrong| wrong.join(" "))
        };
        assert!(second(doc! {}).unwrap_err().contains("metadata.listeners.<id>"));
        assert_eq!(second(doc! { "statusField": "metadata.listeners.<id>" }), Ok(()));
        assert_eq!(second(doc! { "statusField": Bson::Null }), Ok(()));
        assert_eq!(second(doc! { "collection": "other" }), Ok(()));
    }
}
