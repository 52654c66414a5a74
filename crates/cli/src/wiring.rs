//! How the command line comes to its stores: by URL, through `windlass::open`, which has the list of them; and for
//! apps by what a URL does not say: a queue file in a form of its own, a table of somebody else.

use std::sync::Arc;

use async_trait::async_trait;
use windlass::OpenError;
use windlass_app::{AppError, Stores};
#[cfg(any(feature = "json", feature = "postgres"))]
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::Store;
#[cfg(feature = "postgres")]
use {
    windlass_app::Lack, windlass_app::mapping::Mapping, windlass_engine::core::secret::Secret,
    windlass_engine::core::store::Source, windlass_postgres::adopted::AdoptedTable,
};

use crate::args::PlaceArgs;
use crate::left_out::LeftOut;

/// Opens a store that is there, or the way to a server that has one. Whoever looks into an empty folder makes nothing.
pub async fn open_place(place: &PlaceArgs) -> anyhow::Result<Arc<dyn Store>> {
    let target = place.target();
    let opened = windlass::open_existing(&target).await;
    opened.map_err(|error| match error {
        OpenError::Missing { .. } => anyhow::Error::from(error)
            .context("nothing to look at: begin with windlass serve or windlass enqueue, or name another by --store or --url"),
        error => not_opened(&target, error),
    })
}

/// Opens a store, or makes it and says so; or the way to a server that has one.
pub async fn make_place(place: &PlaceArgs) -> anyhow::Result<Arc<dyn Store>> {
    make_store(&place.target()).await
}

/// Opens the store of a URL, or makes it and says so, and brings its schema up to date.
pub async fn make_store(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    match windlass::open_existing(url).await {
        Err(OpenError::Missing { .. }) => {
            let store = windlass::open(url).await.map_err(|error| not_opened::<anyhow::Error>(url, error))?;
            eprintln!("made the store {}", without_password(url));
            Ok(store)
        }
        opened => opened.map_err(|error| not_opened(url, error)),
    }
}

/// Why a store is not open. A library is given features in Cargo.toml, this program by its build.
pub fn not_opened<E: From<LeftOut> + From<OpenError>>(url: &str, error: OpenError) -> E {
    match error {
        OpenError::NotBuilt { feature } => {
            LeftOut { what: format!("the store of {}", without_password(url)), feature }.into()
        }
        error => error.into(),
    }
}

/// The stores of this program, for its apps.
pub struct OurStores;

#[async_trait]
impl Stores for OurStores {
    async fn open(&self, url: &str) -> Result<Arc<dyn Store>, AppError> {
        windlass::open(url).await.map_err(|error| not_opened(url, error))
    }

    async fn open_existing(&self, url: &str) -> Result<Option<Arc<dyn Store>>, AppError> {
        match windlass::open_existing(url).await {
            Err(OpenError::Missing { .. }) => Ok(None),
            opened => opened.map(Some).map_err(|error| not_opened(url, error)),
        }
    }

    #[cfg(feature = "json")]
    async fn open_queue_file(&self, wish: windlass_app::QueueFileWish) -> Result<Arc<dyn Store>, StoreError> {
        let windlass_app::QueueFileWish { path, layout, age_ms_max } = wish;
        let options = windlass_json::Options {
            layout,
            on_open: windlass_json::OnOpen::FailUnfinished,
            on_damage: windlass_json::OnDamage::BeginAnew,
            age_ms_max: Some(age_ms_max),
            ..windlass_json::Options::new(Arc::new(windlass_engine::world::RealWorld::new()))
        };
        Ok(windlass_json::JsonStore::open_with(path, options).await?)
    }

    #[cfg(feature = "postgres")]
    async fn adopt(&self, url: &Secret<String>, mapping: Mapping) -> Result<Arc<dyn Source>, StoreError> {
        Ok(AdoptedTable::open(url.expose(), windlass_postgres::Options::default(), mapping).await?)
    }

    #[cfg(feature = "postgres")]
    async fn lacks(&self, url: &Secret<String>, mapping: &Mapping) -> Result<Vec<Lack>, StoreError> {
        let options = windlass_postgres::Options::default();
        let found = AdoptedTable::check(url.expose(), options, mapping).await?;
        Ok(found.into_iter().map(|finding| Lack { what: finding.what, sql: finding.sql }).collect())
    }

    #[cfg(feature = "postgres")]
    fn pool(&self, url: &Secret<String>) -> Result<deadpool_postgres::Pool, StoreError> {
        windlass_postgres::pool_of(url.expose(), &windlass_postgres::Options::default())
    }
}

/// A URL as it may be shown.
pub use windlass::without_password;
