//! A change, as the stream tells it.

use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};
use serde::Serialize;

use crate::path;
use crate::token::Token;

/// What happened to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    Insert,
    Update,
    Replace,
    Delete,
}

impl Operation {
    pub(crate) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "insert" => Self::Insert,
            "update" => Self::Update,
            "replace" => Self::Replace,
            "delete" => Self::Delete,
            _ => return None,
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Delete => "delete",
        }
    }
}

/// What an update has changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UpdateDescription {
    /// Paths and their new values.
    pub(crate) updated: Document,
    pub(crate) removed: Vec<String>,
    pub(crate) truncated: Vec<String>,
}

impl UpdateDescription {
    fn of(document: &Document) -> Self {
        let texts = |name: &str| document.get_array(name).cloned().unwrap_or_default();
        let removed =
            texts("removedFields").iter().filter_map(|path| path.as_str().map(str::to_owned)).collect();
        let field = |item: &Bson| item.as_document()?.get_str("field").ok().map(str::to_owned);
        let truncated = texts("truncatedArrays").iter().filter_map(field).collect();
        Self {
            updated: document.get_document("updatedFields").cloned().unwrap_or_default(),
            removed,
            truncated,
        }
    }

    /// All paths that it names.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let others = self.removed.iter().chain(&self.truncated).map(String::as_str);
        self.updated.keys().map(String::as_str).chain(others)
    }

    /// Whether it has changed what a path leads to.
    pub(crate) fn touches(&self, wanted: &str) -> bool {
        self.paths().any(|path| path::is_within(path, wanted) || path::is_within(wanted, path))
    }

    /// What it has set and taken away, in a document that was read later. So an update is judged by what it wrote,
    /// also when the document has moved on since.
    pub(crate) fn overlay(&self, document: &mut Document) {
        for (path, value) in &self.updated {
            path::set(document, path, value.clone());
        }
        for path in &self.removed {
            path::unset(document, path);
        }
    }
}

/// A change of a document.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) token: Token,
    pub(crate) cluster_time: Timestamp,
    pub(crate) wall_time: Option<DateTime>,
    pub(crate) operation: Operation,
    pub(crate) database: String,
    pub(crate) collection: String,
    /// `{_id: …}`, and the shard key where there is one.
    pub(crate) key: Document,
    /// The document afterwards, as far as it is known.
    pub(crate) document: Option<Document>,
    /// The document before, where the collection keeps images.
    pub(crate) before: Option<Document>,
    pub(crate) update: Option<UpdateDescription>,
    /// How large it was on the wire.
    pub(crate) bytes: usize,
}

/// What came out of the stream.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A change of a document.
    Change(Box<Event>),
    /// Something else, such as a collection that was dropped: only its position counts.
    Other(Token),
    /// Something that cannot be read.
    Unreadable(Box<Unreadable>),
}

/// An event that cannot be read, and what can be told of it.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) token: Option<Token>,
    /// The database and the collection.
    pub(crate) place: Option<(String, String)>,
    pub(crate) why: String,
    pub(crate) bytes: usize,
}

impl Unreadable {
    fn of(raw: &RawDocumentBuf, why: &str) -> Heard {
        let id = raw.get_document("_id").ok().and_then(|id| id.get_str("_data").ok());
        let ns = raw.get_document("ns").ok();
        let place =
            ns.and_then(|ns| Some((ns.get_str("db").ok()?.to_owned(), ns.get_str("coll").ok()?.to_owned())));
        let (token, bytes) = (id.and_then(Token::of_text), raw.as_bytes().len());
        Heard::Unreadable(Box::new(Self { token, place, why: why.to_owned(), bytes }))
    }
}

impl Heard {
    pub(crate) fn of(raw: &RawDocumentBuf) -> Self {
        let bytes = raw.as_bytes().len();
        let read = Document::try_from(raw.as_ref()).map_err(|why| why.to_string());
        let heard = read.and_then(|document| Self::of_document(document, bytes).map_err(str::to_owned));
        heard.unwrap_or_else(|why| Unreadable::of(raw, &why))
    }

    fn of_document(mut document: Document, bytes: usize) -> Result<Self, &'static str> {
        let token = document.get_document("_id").ok().and_then(Token::of_id).ok_or("it has no token")?;
        let Some(operation) = document.get_str("operationType").ok().and_then(Operation::of) else {
            return Ok(Self::Other(token));
        };
        let take = |document: &mut Document, name: &str| match document.remove(name) {
            Some(Bson::Document(found)) => Some(found),
            _ => None,
        };
        let name = |ns: &Document, name: &str| ns.get_str(name).map(str::to_owned).ok();
        let ns = take(&mut document, "ns").unwrap_or_default();
        let (Some(database), Some(collection)) = (name(&ns, "db"), name(&ns, "coll")) else {
            return Err("it names no collection");
        };
        let update = take(&mut document, "updateDescription").map(|found| UpdateDescription::of(&found));
        Ok(Self::Change(Box::new(Event {
            cluster_time: token.cluster_time(),
            wall_time: document.get_datetime("wallTime").ok().copied(),
            operation,
            database,
            collection,
            key: take(&mut document, "documentKey").unwrap_or_default(),
            document: take(&mut document, "fullDocument"),
            before: take(&mut document, "fullDocumentBeforeChange"),
            update,
            bytes,
            token,
        })))
    }

    pub(crate) fn token(&self) -> Option<&Token> {
        match self {
            Self::Change(event) => Some(&event.token),
            Self::Other(token) => Some(token),
            Self::Unreadable(event) => event.token.as_ref(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Change(event) => event.bytes,
            Self::Other(_) => 64,
            Self::Unreadable(event) => event.bytes,
        }
    }
}

impl Event {
    /// The document's `_id`.
    pub(crate) fn id(&self) -> &Bson {
        self.key.get("_id").unwrap_or(&Bson::Null)
    }

    /// As the server would tell it, for filters with paths of the event.
    pub(crate) fn as_document(&self) -> Document {
        let mut event = doc! {
            "_id": { "_data": self.token.text() },
            "operationType": self.operation.word(),
            "clusterTime": self.cluster_time,
            "ns": { "db": &self.database, "coll": &self.collection },
            "documentKey": self.key.clone(),
        };
        if let Some(time) = self.wall_time {
            event.insert("wallTime", time);
        }
        if let Some(document) = &self.document {
            event.insert("fullDocument", document.clone());
        }
        if let Some(before) = &self.before {
            event.insert("fullDocumentBeforeChange", before.clone());
        }
        if let Some(update) = &self.update {
            let UpdateDescription { updated, removed, truncated } = update;
            let changed = doc! {
                "updatedFields": updated.clone(), "removedFields": removed.clone(), "truncatedArrays": truncated.clone(),
            };
            event.insert("updateDescription", changed);
        }
        event
    }
}

/// An id as people write it.
pub(crate) fn id_text(id: &Bson) -> String {
    match id {
        Bson::ObjectId(id) => id.to_hex(),
        Bson::String(text) => text.clone(),
        other => other.clone().into_relaxed_extjson().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    const TOKEN: &str = "8264A1B2C3000000072B022C0100296E5A1004";

    #[test]
    fn an_event_is_read() {
        let event = doc! {
            "_id": { "_data": TOKEN }, "operationType": "update", "ns": { "db": "d", "coll": "c" },
            "documentKey": { "_id": 7 },
            "updateDescription": { "updatedFields": { "a.b": 1 }, "removedFields": ["x"],
                "truncatedArrays": [ { "field": "list", "newSize": 1 } ] },
        };
        let Heard::Change(event) = Heard::of(&raw(&event)) else { panic!("a change") };
        let update = event.update.as_ref().unwrap();
        assert_eq!(update.paths().collect::<Vec<_>>(), ["a.b", "x", "list"]);
        assert!(update.touches("a") && update.touches("a.b.c") && !update.touches("a.c"));
        assert_eq!(id_text(event.id()), "7");
    }

    #[test]
    fn what_is_no_change_has_its_position_all_the_same() {
        let dropped =
            doc! { "_id": { "_data": TOKEN }, "operationType": "drop", "ns": { "db": "d", "coll": "c" } };
        assert!(matches!(Heard::of(&raw(&dropped)), Heard::Other(_)));
        let nameless = doc! { "_id": { "_data": TOKEN }, "operationType": "insert" };
        assert!(matches!(Heard::of(&raw(&nameless)), Heard::Unreadable(event) if event.token.is_some()));
    }

    #[test]
    fn b18_an_update_is_judged_by_what_it_wrote() {
        let update = UpdateDescription {
            updated: doc! { "status": "received", "n.x": 2 },
            removed: vec!["old".into()],
            truncated: Vec::new(),
        };
        let mut later = doc! { "status": "done", "n": { "x": 9, "y": 1 }, "old": 1 };
        update.overlay(&mut later);
        assert_eq!(later, doc! { "status": "received", "n": { "x": 2, "y": 1 } });
    }
}
