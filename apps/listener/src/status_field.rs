//! The field of a document that tells what became of it.

use mongodb::bson::{Bson, Document, doc};

use crate::event::UpdateDescription;
use crate::path;

/// The field when nothing is said.
pub(crate) const DEFAULT: &str = "metadata.listener";

/// The status of a document that somebody else calls failed.
const ERROR: &str = "error";

/// A field such as `metadata.listener`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StatusField(String);

impl StatusField {
    /// Reads a path; says why it cannot be one.
    pub(crate) fn new(path: &str) -> Result<Self, String> {
        let wrong =
            path.split('.').any(|part| part.is_empty() || part.starts_with('$') || part.contains('\0'));
        if wrong || path.len() > 200 {
            return Err(format!("statusField {path:?} is no path of a field, such as {DEFAULT}"));
        }
        if path == "_id" || path.starts_with("_id.") {
            return Err("statusField cannot be _id, which never changes".to_owned());
        }
        Ok(Self(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }

    /// The path of one of its parts.
    pub(crate) fn part(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    /// What must not count as a change: the field, and for `metadata.listeners.<id>` the whole map, which people
    /// and jobs set to null.
    pub(crate) fn private(&self) -> &str {
        self.0.strip_suffix(self.0.rsplit('.').next().unwrap_or_default()).map_or(&self.0, |parent| {
            match parent.trim_end_matches('.') {
                map if map.ends_with("listeners") => map,
                _ => &self.0,
            }
        })
    }

    /// Whether a document asks to be done again: its status is there, and null or the word for an error.
    pub(crate) fn asks_again(&self, document: &Document) -> bool {
        let null = |path: &str| matches!(path::value(document, path), Some(Bson::Null));
        self.says_error(document) || null(&self.part("status")) || null(&self.0) || null(self.private())
    }

    /// Whether its status is the word for an error. We never write it, so that it always asks.
    pub(crate) fn says_error(&self, document: &Document) -> bool {
        matches!(path::value(document, &self.part("status")), Some(Bson::String(status)) if status == ERROR)
    }

    /// The error that a document has, and when it came about; nothing where it has none.
    pub(crate) fn error(&self, document: &Document) -> Option<(Bson, Bson)> {
        let part = |name: &str| path::value(document, &self.part(name)).cloned().unwrap_or(Bson::Null);
        Some((part("error"), part("lastError"))).filter(|(error, _)| *error != Bson::Null)
    }

    /// Whether a document is done.
    pub(crate) fn is_complete(&self, document: &Document) -> bool {
        matches!(path::value(document, &self.part("status")), Some(Bson::String(status)) if status == "complete")
    }

    /// A query for documents that ask to be done again. A status that is not there asks for nothing.
    pub(crate) fn query_again(&self) -> Document {
        doc! { "$or": self.wishes() }
    }

    /// The ways in which a document asks, each a query that an index can have.
    pub(crate) fn wishes(&self) -> Vec<Document> {
        let of_null = doc! { "$type": 10 };
        let mut ways = vec![
            doc! { self.part("status"): of_null.clone() },
            doc! { self.part("status"): ERROR },
            doc! { &self.0: of_null.clone() },
        ];
        if self.private() != self.0 {
            ways.push(doc! { self.private(): of_null });
        }
        ways
    }
}

/// Whether an update has touched nothing but these fields: it is ours, or a person's word to us, and no change of
/// the document.
pub(crate) fn touches_only(update: &UpdateDescription, private: &[String]) -> bool {
    let within = |path: &str| private.iter().any(|field| path::is_within(path, field));
    let UpdateDescription { updated, removed, truncated } = update;
    let set = updated.iter().all(|(path, value)| is_private(path, value, private, &within));
    set && removed.iter().chain(truncated).all(|path| within(path))
}

/// A field that was not there comes with its parents: `metadata: {listener: {…}}`.
fn is_private(path: &str, value: &Bson, private: &[String], within: &dyn Fn(&str) -> bool) -> bool {
    if within(path) {
        return true;
    }
    let leads = private.iter().any(|field| path::is_within(field, path));
    let Some(inner) = value.as_document().filter(|inner| leads && !inner.is_empty()) else { return false };
    inner.iter().all(|(name, value)| is_private(&format!("{path}.{name}"), value, private, within))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(updated: Document, removed: &[&str]) -> UpdateDescription {
        let removed = removed.iter().map(|path| (*path).to_owned()).collect();
        UpdateDescription { updated, removed, truncated: Vec::new() }
    }

    #[test]
    fn b13_our_own_writes_are_known_by_whole_segments() {
        let private = vec!["metadata.listener".to_owned()];
        let is = |updated: Document, removed: &[&str]| touches_only(&update(updated, removed), &private);
        assert!(is(doc! { "metadata.listener.status": "complete" }, &[]));
        assert!(is(doc! { "metadata.listener": Bson::Null }, &[]));
        assert!(is(doc! { "metadata": { "listener": { "status": "complete" } } }, &[]));
        assert!(is(doc! {}, &["metadata.listener"]));
        assert!(!is(doc! { "metadata.listenerX": 1 }, &[]));
        assert!(!is(doc! { "metadata": { "listener": {}, "other": 1 } }, &[]));
        assert!(!is(doc! { "metadata": Bson::Null }, &[]));
        assert!(!is(doc! { "metadata.listener.status": "complete", "a": 1 }, &[]));
        assert!(!is(doc! {}, &["metadata"]));
    }

    #[test]
    fn null_asks_again_and_nothing_does_not() {
        let field = StatusField::new("metadata.listeners.abc").unwrap();
        assert_eq!(field.private(), "metadata.listeners");
        assert!(field.asks_again(&doc! { "metadata": { "listeners": Bson::Null } }));
        assert!(field.asks_again(&doc! { "metadata": { "listeners": { "abc": { "status": Bson::Null } } } }));
        let failed = doc! { "metadata": { "listeners": { "abc": { "status": "error" } } } };
        assert!(field.asks_again(&failed) && field.says_error(&failed));
        assert!(!field.asks_again(&doc! { "metadata": { "listeners": {} } }));
        assert!(!field.asks_again(&doc! {}));
        assert!(
            field.is_complete(&doc! { "metadata": { "listeners": { "abc": { "status": "complete" } } } })
        );
        assert_eq!(StatusField::new(DEFAULT).unwrap().private(), DEFAULT);
        assert!(StatusField::new("a..b").is_err() && StatusField::new("_id").is_err());
    }
}
