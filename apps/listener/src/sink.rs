//! Where jobs are written: rows of Agenda's, or jobs of the store; in the transaction of whoever makes them.

use std::collections::HashSet;
use std::sync::Arc;

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::Error;
use windlass_engine::core::id::{Key, QueueName};
use windlass_engine::core::job::NewJob as StoreJob;
use windlass_engine::{Kind, StoreError};
use windlass_mongo::{MongoStore, Within, WithinError};

use crate::event::{Event, id_text};
use crate::home::{Home, code, is_collision, is_passing};
use crate::job::{NewJob, key_of};
use crate::listener::Listener;
use crate::settings::JobsTarget;

/// The number of an error of the server: an index has it already.
const DUPLICATE: i32 = 11000;

/// Why jobs were not written.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Another program was first; at once again.
    Raced,
    /// Another time.
    Passing(String),
    /// Never: one of them is poison.
    Never(String),
    Database(Box<Error>),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Database(Box::new(error))
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(_) | StoreError::Unfit(_) | StoreError::Conflict(_) => {
                Self::Never(error.to_string())
            }
            passing => Self::Passing(passing.to_string()),
        }
    }
}

impl Trouble {
    /// Whether trying again may help.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Raced | Self::Passing(_) => true,
            Self::Never(_) => false,
            Self::Database(error) => is_passing(error),
        }
    }

    /// In words.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Raced => "another program was first".to_owned(),
            Self::Passing(why) | Self::Never(why) => why.clone(),
            Self::Database(error) => format!("{} ({})", error.kind, code(error)),
        }
    }

    /// The number of the server's error; 0 for anything else.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::Database(error) => code(error),
            Self::Raced | Self::Passing(_) | Self::Never(_) => 0,
        }
    }

    /// Whether somebody else wrote the same at that moment, so that nothing was written.
    pub(crate) fn is_collision(&self) -> bool {
        match self {
            Self::Raced => true,
            Self::Passing(_) | Self::Never(_) => false,
            Self::Database(error) => is_collision(error),
        }
    }

    /// Whether something is there already that an index admits once.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.code() == DUPLICATE
    }
}

/// Writes jobs within a transaction, as its last part. What is answered is to be told of the commit.
pub(crate) async fn write_within<'a>(
    home: &'a Home,
    session: &mut ClientSession,
    jobs: &[NewJob],
) -> Result<Option<Within<'a>>, Trouble> {
    if jobs.is_empty() {
        return Ok(None);
    }
    match home.target {
        JobsTarget::Agenda => {
            home.rows().insert_many(rows(jobs)?).session(session).await?;
            Ok(None)
        }
        JobsTarget::Windlass => {
            let within = store(home).await?.enqueue_within(session, store_jobs(jobs)?).await;
            within.map(Some).map_err(|error| match error {
                WithinError::Raced => Trouble::Raced,
                WithinError::Store(error) => error.into(),
                WithinError::Database(error) => Trouble::Database(error),
            })
        }
    }
}

/// A store that cannot be opened now is no fault of the jobs.
async fn store(home: &Home) -> Result<&Arc<MongoStore>, Trouble> {
    home.store().await.map_err(|error| Trouble::Passing(error.kind.to_string()))
}

fn rows(jobs: &[NewJob]) -> Result<Vec<&RawDocumentBuf>, Trouble> {
    jobs.iter().map(|job| job.row().map_err(unfit)).collect()
}

fn store_jobs(jobs: &[NewJob]) -> Result<Vec<StoreJob>, Trouble> {
    jobs.iter().map(|job| job.store_job().map_err(unfit)).collect()
}

fn unfit(why: &str) -> Trouble {
    Trouble::Never(why.to_owned())
}

/// The ids, as text, of those documents of a listener that have a job already.
pub(crate) async fn known(
    home: &Home,
    listener: &Listener,
    database: &str,
    events: &[Event],
) -> Result<HashSet<String>, Error> {
    let mut known = HashSet::new();
    match home.target {
        JobsTarget::Agenda => {
            let ids: Vec<String> = events.iter().map(|event| id_text(event.id())).collect();
            let rows = doc! {
                "data.documentId": { "$in": ids }, "data.listenerId": listener.id(), "data.database": database,
            };
            let mut found = home.jobs.find(rows).projection(doc! { "data.documentId": 1 }).await?;
            while let Some(row) = found.try_next().await? {
                known.extend(document_of(&row));
            }
        }
        JobsTarget::Windlass => {
            let (Ok(queue), Ok(kind)) = (QueueName::new(&listener.queue), Kind::new(&listener.job_name))
            else {
                return Ok(known);
            };
            let keys: HashSet<Key> = events.iter().filter_map(|event| key_of(event).ok()).collect();
            let held = home.store().await?.keys_of(&queue, &kind, keys).await.map_err(Error::custom)?;
            let is_held = |event: &&Event| key_of(event).is_ok_and(|key| held.contains(&key));
            known.extend(events.iter().filter(is_held).map(|event| id_text(event.id())));
        }
    }
    Ok(known)
}

fn document_of(row: &Document) -> Option<String> {
    row.get_document("data").ok()?.get_str("documentId").ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_never_will() {
        let passing = [
            Trouble::Raced,
            Trouble::Passing("later".to_owned()),
            StoreError::Busy("a lock".to_owned()).into(),
            Error::from(std::io::Error::other("cut")).into(),
        ];
        for trouble in passing {
            assert!(trouble.passes(), "{}", trouble.why());
        }
        for trouble in [Trouble::Never("poison".to_owned()), Error::custom("broken").into()] {
            assert!(!trouble.passes(), "{}", trouble.why());
        }
    }
}
