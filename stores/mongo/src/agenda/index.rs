//! The index by which every version of Agenda looks for work.

use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

/// What Agenda calls it. It creates an index of that name, and complains when another has the same keys.
pub const INDEX_NAME: &str = "findAndLockNextJobIndex";

/// The keys of that index, in their order.
pub fn index_keys() -> Document {
    doc! { "name": 1, "nextRunAt": 1, "priority": -1, "lockedAt": 1, "disabled": 1 }
}

/// Creates the index where it is missing. (@hokify/agenda does not, unless it is told to.)
pub async fn ensure_index<T: Send + Sync>(rows: &Collection<T>) -> Result<(), Error> {
    let options = IndexOptions::builder().name(INDEX_NAME.to_owned()).build();
    let model = IndexModel::builder().keys(index_keys()).options(options).build();
    rows.create_index(model).await?;
    Ok(())
}
