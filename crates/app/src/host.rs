//! What the command line gives an app.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_engine::core::book::layout::Layout;
use windlass_engine::core::error::{Invalid, StoreError};
use windlass_engine::core::store::Store;
use windlass_engine::world::{RealWorld, World};
#[cfg(feature = "postgres")]
use {crate::mapping::Mapping, windlass_engine::core::secret::Secret, windlass_engine::core::store::Source};

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

/// The ways to stores, so that an app knows none of them. A host that has not
/// all of them refuses the rest.
#[async_trait]
pub trait Stores: Send + Sync {
    /// Opens the store of a URL, and brings its schema up to date.
    async fn open(&self, url: &str) -> Result<Arc<dyn Store>, AppError>;

    /// Opens the store of a URL only if it is there, and makes none: for whoever only looks, such as `check`. A host that
    /// cannot tell opens it.
    async fn open_existing(&self, url: &str) -> Result<Option<Arc<dyn Store>>, AppError> {
        self.open(url).await.map(Some)
    }

    /// Opens a queue that is a file of a form of the app's own.
    async fn open_queue_file(&self, _: QueueFileWish) -> Result<Arc<dyn Store>, StoreError> {
        Err(not_here())
    }

    /// Works a table of a Postgres database that belongs to somebody else.
    #[cfg(feature = "postgres")]
    async fn adopt(&self, _url: &Secret<String>, _: Mapping) -> Result<Arc<dyn Source>, StoreError> {
        Err(not_here())
    }

    /// What such a table lacks.
    #[cfg(feature = "postgres")]
    async fn lacks(&self, _url: &Secret<String>, _: &Mapping) -> Result<Vec<Lack>, StoreError> {
        Err(not_here())
    }

    /// Connections to a Postgres database, for questions of the app's own. Nothing is asked yet.
    #[cfg(feature = "postgres")]
    fn pool(&self, _url: &Secret<String>) -> Result<deadpool_postgres::Pool, StoreError> {
        Err(not_here())
    }
}

fn not_here() -> StoreError {
    StoreError::Invalid(Invalid::new("store", "of this kind cannot be opened by this program"))
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
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What.
    pub what: String,
    /// What would put it right.
    pub sql: Option<String>,
}
