//! Durable background work: jobs that survive any crash, are never held by two
//! workers at once, stop when they are told to, stay inside their quotas, and
//! go on from the last step that finished.
//!
//! # In five minutes
//!
//! A **job** is a type. Two lines say what it is; everything else (queue,
//! retries, timeout, key) has a default, and is a line each in [`Job`].
//!
//! ```
//! use windlass::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendMail {
//!     to: String,
//! }
//!
//! impl Job for SendMail {
//!     const KIND: &'static str = "send-mail";
//!     type Output = usize;
//! }
//!
//! // A handler gets the job and a context; `?` works on any error, and means: try again by the ladder.
//! async fn send_mail(mail: SendMail, _: Context) -> Result<usize, Failure> {
//!     let letters = mail.to.strip_suffix("@example.com").ok_or("not one of ours").permanent()?.len();
//!     Ok(letters)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! // A store is where jobs live: a file, or a database for many machines.
//! let store = windlass::open("sqlite:mail.db").await?;
//!
//! // A client puts jobs into it.
//! let client = Client::new(store.clone());
//! let sent = client.enqueue(SendMail { to: "ada@example.com".into() }).key("shop-7").await?;
//!
//! // A worker takes them out, here or in another process.
//! Worker::new(store).handle(send_mail).run_until_idle().await?;
//! assert_eq!(sent.wait().await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! An accepted job is never lost. An attempt may run twice; only the newest
//! attempt can change the job. Two leases never overlap by the store's clock. A
//! side effect happens once only if it uses the fence ([`Context::fence`]) or
//! the job's id to be so.
//!
//! # Where to go on
//!
//! - [`Job`]: queue, ladder, timeout, key and dedupe key of a job, as data of its type;
//!   [`JobRequest`] for the same at one enqueue.
//! - [`Context`]: steps that are not run again, progress, budgets, whether to stop.
//! - [`Failure`] and [`OrFail`]: try again, try later, give up.
//! - [`Worker`]: state that handlers share, layers around attempts, slots for each queue.
//! - [`Shelf`]: documents that a program keeps beside its jobs, written in one commit with them.
//! - [`Client::schedule`]: cron lines with time zones.
//! - [`process`]: any program as a handler.
//! - `testing` (feature `testing`): a store in memory and time that jumps.
//!
//! # Features
//!
//! `sqlite` (the default), `postgres`, `mongo` (whose driver takes two minutes
//! to build), `json`, `remote` (another Windlass server as the store), `testing`, `opentelemetry` (the span of an enqueue is
//! the parent of its attempts), `otlp` (spans for a collector).

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod enqueue_in;
mod open;
#[cfg(feature = "otlp")]
pub mod otlp;

pub use open::{OpenError, check_url, open, open_existing, without_password};
pub use windlass_engine::*;

/// Enqueues inside a transaction of your own, and the store itself.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use windlass_postgres::{Options, PostgresStore, tokio_postgres};

    pub use crate::enqueue_in::postgres::{enqueue_in, enqueue_many_in};
}

/// Enqueues inside a transaction of your own, and the store itself.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use windlass_sqlite::{Options, SqliteStore, rusqlite};

    pub use crate::enqueue_in::sqlite::{enqueue_in, enqueue_many_in};
}

/// The store in one JSON file.
#[cfg(feature = "json")]
pub mod json {
    pub use windlass_json::{JsonStore, Options};
}

/// The store on MongoDB, and the rows of Node's Agenda as a source.
#[cfg(feature = "mongo")]
pub mod mongo {
    pub use windlass_mongo::{MongoStore, Options, agenda};
}

/// A Windlass server as the store.
#[cfg(feature = "remote")]
pub mod remote {
    pub use windlass_remote::{Options, RemoteStore};
}

/// What nearly every program needs, at once.
pub mod prelude {
    pub use serde::{Deserialize, Serialize};
    pub use windlass_engine::{
        Client, Context, Failure, Job, JobRequest, OrFail, Shelf, ShelfError, Store, Worker,
    };
}

/// The snippets of the documents are tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/guide/quickstart.md")]
    mod quickstart {}
    #[doc = include_str!("../../../docs/guide/workers.md")]
    mod workers {}
    #[doc = include_str!("../../../docs/guide/testing.md")]
    mod testing {}
    #[doc = include_str!("../../../docs/comparison.md")]
    mod comparison {}
}

#[cfg(test)]
mod tests {
    /// What the methods of a client, of a store and of a worker take and give is named without a module.
    #[test]
    fn words_are_at_one_level() {
        fn is_the_same<T>(_: &[T]) {}
        is_the_same::<crate::CancelAnswer>(&[] as &[windlass_engine::core::store::CancelAnswer]);
        is_the_same::<crate::RetryAnswer>(&[] as &[windlass_engine::core::store::RetryAnswer]);
        is_the_same::<crate::Outcome>(&[] as &[windlass_engine::core::transition::Outcome]);
        is_the_same::<crate::DedupeKey>(&[] as &[windlass_engine::core::id::DedupeKey]);
        is_the_same::<crate::Span>(&[] as &[windlass_engine::core::time::Span]);
        is_the_same::<crate::Explanation>(&[] as &[windlass_engine::core::eligible::Explanation]);
    }
}
