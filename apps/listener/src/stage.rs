//! A place to try the Listener on: a server that was just started becomes a replica set of one, and documents come and
//! change in it.

use mongodb::bson::{Document, doc, serialize_to_document};
use mongodb::error::{Error, ErrorKind, Result};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};

/// What a server answers that is in a replica set already.
const ALREADY_INITIALIZED: i32 = 23;

/// A database that is watched.
pub struct Stage(Database);

impl Stage {
    /// Makes a replica set called `set` of the server at `authority` (`host:port`), where it is none yet, and answers whether
    /// it takes writes by now: ask again if it does not.
    pub async fn initiate(authority: &str, set: &str) -> Result<bool> {
        let uri = format!("mongodb://{authority}/?directConnection=true&serverSelectionTimeoutMS=1000");
        let admin = Client::with_options(ClientOptions::parse(uri).await?)?.database("admin");
        let config = doc! { "_id": set, "members": [{ "_id": 0, "host": authority }] };
        match admin.run_command(doc! { "replSetInitiate": config }).await {
            Err(error) if code(&error) != Some(ALREADY_INITIALIZED) => return Err(error),
            _ => {}
        }
        let hello = admin.run_command(doc! { "hello": 1 }).await?;
        Ok(hello.get_bool("isWritablePrimary").unwrap_or(false))
    }

    /// The database `name` of the replica set that `uri` names.
    pub async fn open(uri: &str, name: &str) -> Result<Self> {
        Ok(Self(Client::with_uri_str(uri).await?.database(name)))
    }

    /// Puts a document into a collection, or sets these fields of the one that is there.
    pub async fn put(&self, collection: &str, id: &str, fields: &serde_json::Value) -> Result<()> {
        let fields = serialize_to_document(fields).map_err(Error::custom)?;
        let documents = self.0.collection::<Document>(collection);
        documents.update_one(doc! { "_id": id }, doc! { "$set": fields }).upsert(true).await?;
        Ok(())
    }
}

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(command) => Some(command.code),
        _ => None,
    }
}
