//! Whether an event is one that a listener waits for.

use mongodb::bson::{Bson, Document};

use super::{Dialect, Listener, Payload, Trigger};
use crate::event::{Event, Operation, UpdateDescription};
use crate::filter::Filter;

const UPDATED: &str = "updateDescription.updatedFields.";

impl Listener {
    /// Whether the place and the kind of a change fit: all that can be said without the document.
    pub(crate) fn concerns(&self, event: &Event) -> bool {
        self.operations.contains(&event.operation) && self.watches(&event.database, &event.collection)
    }

    /// Whether the document must be known to say more of an update.
    pub(crate) fn needs_document(&self) -> bool {
        let of_document = match self.dialect {
            Dialect::Document => !self.filter.is_empty(),
            Dialect::Event => self
                .filter
                .paths()
                .iter()
                .any(|path| !path.starts_with("updateDescription") && path != "operationType"),
        };
        of_document || self.payload == Payload::Full
    }

    /// Whether an event that concerns it matches.
    pub(crate) fn matches(&self, event: &Event) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        if self.trigger == Trigger::Edge && !self.is_edge(event) {
            return false;
        }
        match self.dialect {
            Dialect::Document => self.filter.matches(&of_event(event)),
            Dialect::Event => matches_event(&self.filter, event, &event.as_document()),
        }
    }

    /// Whether a document that was found, not heard of, matches.
    pub(crate) fn matches_found(&self, document: &Document, event: impl FnOnce() -> Event) -> bool {
        match self.dialect {
            Dialect::Document => self.filter.matches(document),
            Dialect::Event => {
                let event = event();
                matches_event(&self.filter, &event, &event.as_document())
            }
        }
    }

    fn is_edge(&self, event: &Event) -> bool {
        match &event.update {
            Some(update) => self
                .filter
                .paths()
                .iter()
                .any(|path| update.touches(path.strip_prefix("fullDocument.").unwrap_or(path))),
            None => true,
        }
    }
}

/// The document that a filter of documents is matched against: afterwards, or before for a delete, or what is known
/// of it at least.
fn of_event(event: &Event) -> Document {
    let known = match event.operation {
        Operation::Delete => event.before.as_ref(),
        _ => event.document.as_ref(),
    };
    known.cloned().unwrap_or_else(|| {
        let mut document = event.key.clone();
        if let Some(update) = &event.update {
            update.overlay(&mut document);
        }
        document
    })
}

/// In an event the names of changed fields are written in one piece ("a.b"), so that a path through them finds
/// nothing; here it is found, also for a field above or below it.
fn matches_event(filter: &Filter, event: &Event, whole: &Document) -> bool {
    let again = |part: &Filter| matches_event(part, event, whole);
    match filter {
        Filter::All(parts) => parts.iter().all(again),
        Filter::Any(parts) => parts.iter().any(again),
        Filter::Neither(parts) => !parts.iter().any(again),
        Filter::Field { path, tests } => match (path.strip_prefix(UPDATED), &event.update) {
            (Some(field), Some(update)) => {
                let found = updated(update, field);
                let found: Vec<&Bson> = found.iter().collect();
                tests.iter().all(|test| test.passes(&found))
            }
            _ if path == "metadata.objectType" => filter.matches(&of_event(event)),
            _ => filter.matches(whole),
        },
    }
}

fn updated(update: &UpdateDescription, field: &str) -> Vec<Bson> {
    let mut found = Vec::new();
    for (path, value) in &update.updated {
        if path == field {
            found.push(value.clone());
        } else if let Some(rest) = field.strip_prefix(path.as_str()).and_then(|rest| rest.strip_prefix('.')) {
            if let Some(inner) = value.as_document() {
                found.extend(crate::path::values(inner, rest).into_iter().cloned());
            }
        } else if path.strip_prefix(field).is_some_and(|rest| rest.starts_with('.')) {
            found.push(value.clone());
        }
    }
    found
}

/// The names of what an update has changed, for the job.
pub(crate) fn changed_names(event: &Event) -> Vec<String> {
    event.update.as_ref().map(|update| update.paths().map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;
    use crate::token::Token;

    fn listener(more: Document) -> Listener {
        let mut document = doc! { "_id": "a", "collection": "c", "jobName": "j", "database": "d" };
        document.extend(more);
        Listener::read(&document).unwrap()
    }

    fn update(updated: Document, document: Option<Document>) -> Event {
        Event {
            token: Token::of_text("8264A1B2C3000000072B022C0100296E5A1004").unwrap(),
            cluster_time: mongodb::bson::Timestamp { time: 1, increment: 1 },
            wall_time: None,
            operation: Operation::Update,
            database: "d".into(),
            collection: "c".into(),
            key: doc! { "_id": 1 },
            document,
            before: None,
            update: Some(UpdateDescription { updated, removed: Vec::new(), truncated: Vec::new() }),
            bytes: 1,
        }
    }

    #[test]
    fn b11_a_nested_update_is_found_by_its_path() {
        let wants = listener(doc! { "dialect": "event", "operationType": ["update"],
        "filter": { "updateDescription.updatedFields.a.b": { "$exists": true } } });
        assert!(!wants.needs_document());
        assert!(wants.matches(&update(doc! { "a.b": 1 }, None)));
        assert!(wants.matches(&update(doc! { "a": { "b": 1 } }, None)));
        assert!(wants.matches(&update(doc! { "a.b.c": 1 }, None)));
        assert!(!wants.matches(&update(doc! { "a.c": 1 }, None)));
    }

    #[test]
    fn b18_an_edge_is_an_update_of_what_the_filter_names() {
        let filter = doc! { "status": "received" };
        let edge = listener(doc! { "filter": filter.clone(), "trigger": "edge" });
        let level = listener(doc! { "filter": filter });
        let document = Some(doc! { "_id": 1, "status": "received", "note": 2 });
        let unrelated = update(doc! { "note": 2 }, document.clone());
        assert!(!edge.matches(&unrelated) && level.matches(&unrelated));
        assert!(edge.matches(&update(doc! { "status": "received" }, document)));
    }

    #[test]
    fn b07_a_typed_listener_sees_updates() {
        let typed =
            listener(doc! { "metadata": { "objectType": "person", "mappedSourceTypes": ["contact"] } });
        assert!(typed.needs_document());
        let of =
            |kind: &str| update(doc! { "x": 1 }, Some(doc! { "_id": 1, "metadata": { "objectType": kind } }));
        assert!(typed.matches(&of("person")) && typed.matches(&of("contact")) && !typed.matches(&of("deal")));
        let any = listener(doc! { "metadata": { "objectType": "person", "handleAnyObjectType": true } });
        assert!(any.matches(&of("deal")));
    }
}
