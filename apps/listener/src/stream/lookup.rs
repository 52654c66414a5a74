//! Documents of updates: an event tells what was changed, and a filter may ask for more.

use std::collections::{BTreeSet, HashMap};

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;

use crate::event::{Event, Operation, id_text};
use crate::home::Home;
use crate::lane::Lane;
use crate::listener::{Dialect, Payload};

/// Documents that are read at once.
const AT_ONCE: usize = 200;
/// The same where they are wanted whole, which may be large.
const WHOLE_AT_ONCE: usize = 20;

/// What is missing of the documents of one collection.
#[derive(Default)]
struct Missing {
    ids: HashMap<String, Bson>,
    /// First parts of the paths that filters name; nothing for all.
    names: BTreeSet<String>,
    whole: bool,
}

/// Reads the documents of updates that come without, as far as a lane asks for them, and writes into each what the
/// event has set: so it is what it was then, in all that the event tells.
pub(super) async fn complete(home: &Home, events: &mut [Event], lanes: &[Lane]) -> Result<(), Error> {
    let mut missing: HashMap<(String, String), Missing> = HashMap::new();
    for event in
        events.iter().filter(|event| event.operation == Operation::Update && event.document.is_none())
    {
        for lane in lanes.iter().filter(|lane| lane.token < event.token) {
            let Some(listener) = lane
                .listener
                .as_ref()
                .filter(|listener| listener.concerns(event) && listener.needs_document())
            else {
                continue;
            };
            let place = (event.database.clone(), event.collection.clone());
            let missing = missing.entry(place).or_default();
            missing.ids.insert(id_text(event.id()), event.id().clone());
            missing.whole |= listener.payload == Payload::Full || listener.dialect == Dialect::Event;
            missing.names.extend(
                listener.filter.paths().iter().map(|path| path.split('.').next().unwrap_or(path).to_owned()),
            );
        }
    }
    for ((database, collection), wanted) in missing {
        let found = read(home, &database, &collection, &wanted).await?;
        for event in events.iter_mut() {
            let here = event.operation == Operation::Update && event.document.is_none();
            if !here || event.database != database || event.collection != collection {
                continue;
            }
            let Some(document) = found.get(&id_text(event.id())) else { continue };
            let mut document = document.clone();
            if let Some(update) = &event.update {
                update.overlay(&mut document);
            }
            event.document = Some(document);
        }
    }
    Ok(())
}

async fn read(
    home: &Home,
    database: &str,
    collection: &str,
    wanted: &Missing,
) -> Result<HashMap<String, Document>, Error> {
    let from = home.client.database(database).collection::<Document>(collection);
    let ids: Vec<&Bson> = wanted.ids.values().collect();
    let mut found = HashMap::new();
    for some in ids.chunks(if wanted.whole { WHOLE_AT_ONCE } else { AT_ONCE }) {
        let some: Vec<Bson> = some.iter().map(|id| (*id).clone()).collect();
        let mut find = from.find(doc! { "_id": { "$in": some } });
        if !wanted.whole {
            let names: Document = wanted.names.iter().map(|name| (name.clone(), Bson::Int32(1))).collect();
            find = find.projection(names);
        }
        let mut documents = find.await?;
        while let Some(document) = documents.try_next().await? {
            if let Some(id) = document.get("_id") {
                found.insert(id_text(id), document.clone());
            }
        }
    }
    Ok(found)
}
