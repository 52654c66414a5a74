//! What the command line gives an app.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_engine::core::book::layout::Layout;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::mapping::Mapping;
use windlass_engine::core::secret::Secret;
use windlass_engine::core::store::{Source, Store};
use windlass_engine::world::{RealWorld, World};

use crate::app::AppError;
use crate::environment::Environment;

/// What an app is run with.
#[derive(Clone)]
pub struct Host {
    /// What it was given.
    pub environment: Environment,
    /// Clock, chance and waiting.
    pub world: Arc<dyn World>,
    /// The ways to stores.
    pub stores: Arc<dyn Stores>,
    /// Whether answers are for programs.
    pub json: bool,
}

impl Host {
    /// This process, with these ways to stores.
    pub fn of_process(stores: Arc<dyn Stores>, json: bool) -> Self {
        Self { environment: Environment::of_process(), world: Arc::new(RealWorld::new()), stores, json }
    }
}

/// The ways to stores, so that an app knows none of them.
#[async_trait]
pub trait Stores: Send + Sync {
    /// Opens the store of a URL, and brings its schema up to date.
    async fn open(&self, url: &str) -> Result<Arc<dyn Store>, AppError>;

    /// Opens a queue that is a file of a form of the app's own.
    async fn open_queue_file(&self, wish: QueueFileWish) -> Result<Arc<dyn Store>, StoreError>;

    /// Works a table of a Postgres database that belongs to somebody else.
    async fn adopt(&self, url: &Secret<String>, mapping: Mapping) -> Result<Arc<dyn Source>, StoreError>;

    /// What such a table lacks.
    async fn lacks(&self, url: &Secret<String>, mapping: &Mapping) -> Result<Vec<Lack>, StoreError>;

    /// Connections to a Postgres database, for questions of the app's own. Nothing is asked yet.
    #[cfg(feature = "postgres")]
    fn pool(&self, url: &Secret<String>) -> Result<deadpool_postgres::Pool, StoreError>;
}

/// A queue in a file. Jobs that were unfinished when it was last open are
/// failed, and a document that cannot be read is set aside for an empty one.
pub struct QueueFileWish {
    /// Where its document is.
    pub path: PathBuf,
    /// How its document is written.
    pub layout: Arc<dyn Layout>,
    /// Finished jobs go this long after they were accepted.
    pub age_ms_max: u64,
}

/// Something that a table lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What.
    pub what: String,
    /// What would put it right.
    pub sql: Option<String>,
}
