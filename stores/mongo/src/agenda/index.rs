//! The indexes of a collection of Agenda's.

use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

/// What Agenda calls the index by which it looks for work. It creates an index of that name, and complains when
/// another has the same keys.
pub const INDEX_NAME: &str = "findAndLockNextJobIndex";
/// Our own, of the rows that are locked: by it locks that have run out are found without reading the others.
pub const LOCKED_INDEX_NAME: &str = "windlassLockedIndex";

/// The keys of Agenda's index, in their order.
pub fn index_keys() -> Document {
    doc! { "name": 1, "nextRunAt": 1, "priority": -1, "lockedAt": 1, "disabled": 1 }
}

/// Creates Agenda's index where it is missing. (@hokify/agenda does not, unless it is told to.)
pub async fn ensure_index<T: Send + Sync>(rows: &Collection<T>) -> Result<(), Error> {
    let options = IndexOptions::builder().name(INDEX_NAME.to_owned()).build();
    let model = IndexModel::builder().keys(index_keys()).options(options).build();
    rows.create_index(model).await?;
    Ok(())
}

/// Creates our own index of the locked rows. It holds no more of them than run at once.
pub async fn ensure_locked_index<T: Send + Sync>(rows: &Collection<T>) -> Result<(), Error> {
    let options = IndexOptions::builder()
        .name(LOCKED_INDEX_NAME.to_owned())
        .partial_filter_expression(doc! { "lockedAt": { "$type": "date" } })
        .build();
    let model = IndexModel::builder().keys(doc! { "lockedAt": 1 }).options(options).build();
    rows.create_index(model).await?;
    Ok(())
}
