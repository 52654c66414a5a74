//! Dotted paths into documents, as MongoDB walks them.

use mongodb::bson::{Bson, Document};

/// All values that a path leads to. Arrays are walked into, as the server does.
pub(crate) fn values<'a>(document: &'a Document, path: &str) -> Vec<&'a Bson> {
    let parts: Vec<&str> = path.split('.').collect();
    let mut found = Vec::new();
    step_document(document, &parts, &mut found);
    found
}

/// The one value that a path leads to, without walking into arrays.
pub(crate) fn value<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let found = document.get(head)?;
    match (rest, found) {
        (None, found) => Some(found),
        (Some(rest), Bson::Document(inner)) => value(inner, rest),
        (Some(_), _) => None,
    }
}

fn step_document<'a>(document: &'a Document, path: &[&str], found: &mut Vec<&'a Bson>) {
    if let Some((head, rest)) = path.split_first()
        && let Some(value) = document.get(head)
    {
        step(value, rest, found);
    }
}

fn step<'a>(value: &'a Bson, path: &[&str], found: &mut Vec<&'a Bson>) {
    let Some((head, rest)) = path.split_first() else { return found.push(value) };
    match value {
        Bson::Document(inner) => step_document(inner, path, found),
        Bson::Array(items) => {
            if let Some(item) = head.parse::<usize>().ok().and_then(|at| items.get(at)) {
                step(item, rest, found);
            }
            items.iter().filter_map(Bson::as_document).for_each(|item| step_document(item, path, found));
        }
        _ => {}
    }
}

/// Whether `path` is `prefix` or something within it; by whole segments, so that `metadataFoo` is not `metadata`.
pub(crate) fn is_within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Sets what a path leads to, and makes the documents on the way. A number leads into an array that is there.
pub(crate) fn set(document: &mut Document, path: &str, new: Bson) {
    let Some((head, rest)) = path.split_once('.') else {
        document.insert(path, new);
        return;
    };
    if !matches!(document.get(head), Some(Bson::Document(_) | Bson::Array(_))) {
        document.insert(head, Document::new());
    }
    if let Some(inner) = document.get_mut(head) {
        set_in(inner, rest, new);
    }
}

fn set_in(value: &mut Bson, path: &str, new: Bson) {
    match value {
        Bson::Document(inner) => set(inner, path, new),
        Bson::Array(items) => {
            let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
            let Ok(at) = head.parse::<usize>() else { return };
            if at >= items.len() {
                // An array grows by what comes behind it, never by more: an index from outside costs no memory.
                items.push(Bson::Null);
            }
            let Some(item) = items.get_mut(at) else { return };
            match rest {
                None => *item = new,
                Some(rest) => {
                    if !matches!(item, Bson::Document(_) | Bson::Array(_)) {
                        *item = Bson::Document(Document::new());
                    }
                    set_in(item, rest, new);
                }
            }
        }
        _ => {}
    }
}

/// Takes away what a path leads to.
pub(crate) fn unset(document: &mut Document, path: &str) {
    match path.split_once('.') {
        None => {
            document.remove(path);
        }
        Some((head, rest)) => match document.get_mut(head) {
            Some(Bson::Document(inner)) => unset(inner, rest),
            Some(Bson::Array(items)) => {
                let (at, rest) = rest.split_once('.').unwrap_or((rest, ""));
                if let Some(Bson::Document(inner)) = at.parse::<usize>().ok().and_then(|at| items.get_mut(at))
                {
                    unset(inner, rest);
                }
            }
            _ => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn paths_walk_into_arrays() {
        let document = doc! { "a": [ { "b": 1 }, { "b": 2 }, 3 ], "c": { "d": 4 } };
        assert_eq!(values(&document, "a.b"), [&Bson::Int32(1), &Bson::Int32(2)]);
        assert_eq!(values(&document, "a.1.b"), [&Bson::Int32(2)]);
        assert_eq!(values(&document, "c.d"), [&Bson::Int32(4)]);
        assert_eq!(value(&document, "c.d"), Some(&Bson::Int32(4)));
        assert_eq!(value(&document, "a.b"), None);
        assert!(values(&document, "c.d.e").is_empty());
    }

    #[test]
    fn whole_segments_count() {
        assert!(is_within("metadata.listener.status", "metadata.listener"));
        assert!(is_within("metadata.listener", "metadata.listener"));
        assert!(!is_within("metadata.listeners", "metadata.listener"));
    }

    #[test]
    fn setting_and_taking_away() {
        let mut document = doc! { "a": { "b": 1 }, "list": [ { "x": 1 } ] };
        set(&mut document, "a.c.d", Bson::Int32(2));
        set(&mut document, "list.0.x", Bson::Int32(9));
        set(&mut document, "list.1", Bson::Int32(5));
        set(&mut document, "list.900000000.x", Bson::Int32(5));
        unset(&mut document, "a.b");
        unset(&mut document, "list.0.y");
        assert_eq!(document.get_document("a").unwrap(), &doc! { "c": { "d": 2 } });
        assert_eq!(value(&document, "list").unwrap().as_array().unwrap()[0], Bson::Document(doc! { "x": 9 }));
    }
}
