//! The one file that names every store and every app.

use std::sync::Arc;

use deadpool_postgres::Pool;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::Store;
use windlass_engine::world::RealWorld;
use windlass_postgres::adopted::AdoptedTable;

use crate::args::PlaceArgs;

/// Opens a store, or the way to a server that has one.
pub async fn open_place(place: &PlaceArgs) -> anyhow::Result<Arc<dyn Store>> {
    Ok(windlass::open(place.target()).await?)
}

/// Opens the store of a URL, and brings its schema up to date.
pub async fn open_store(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    Ok(windlass::open(url).await?)
}

/// Opens the queue file of the News Nexus server.
pub async fn open_queue_file(wish: windlass_news_nexus::StoreWish) -> Result<Arc<dyn Store>, StoreError> {
    let windlass_news_nexus::StoreWish { path, layout, age_ms_max } = wish;
    let options = windlass_json::Options {
        layout,
        on_open: windlass_json::OnOpen::FailUnfinished,
        on_damage: windlass_json::OnDamage::BeginAnew,
        age_ms_max: Some(age_ms_max),
        ..windlass_json::Options::new(Arc::new(RealWorld::new()))
    };
    Ok(windlass_json::JsonStore::open_with(path, options).await?)
}

/// Connections for the Nurse Tour worker's own questions.
pub fn nurse_tour_pool(url: &str) -> anyhow::Result<Pool> {
    let pool = windlass_postgres::pool_of(url, &windlass_postgres::Options::default());
    pool.map_err(|error| anyhow::anyhow!("DATABASE_URL cannot be used: {error}"))
}

/// The Nurse Tour worker on its table.
pub async fn nurse_tour(
    settings: &windlass_nurse_tour::settings::Settings,
    pool: Pool,
) -> anyhow::Result<windlass_nurse_tour::worker::Wiring> {
    let types = windlass_nurse_tour::schema::Types::read(&pool).await?;
    let mapping = windlass_nurse_tour::mapping::mapping(&settings.worker, &types);
    let options = windlass_postgres::Options::default();
    let source = AdoptedTable::open(settings.database_url.expose(), options, mapping).await?;
    Ok(windlass_nurse_tour::worker::Wiring { source, pool, world: Arc::new(RealWorld::new()) })
}

/// What the table of messages lacks, as the store that works it sees it.
pub async fn nurse_tour_findings(url: &str) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let types = windlass_nurse_tour::schema::Types::read(&nurse_tour_pool(url)?).await?;
    let mapping =
        windlass_nurse_tour::mapping::mapping(&windlass_nurse_tour::settings::Worker::default(), &types);
    let found = AdoptedTable::check(url, windlass_postgres::Options::default(), &mapping).await?;
    Ok(found.into_iter().map(|finding| (finding.what, finding.sql)).collect())
}

/// A URL as it may be shown.
pub use windlass::without_password;
