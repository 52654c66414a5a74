//! The one file that names every store and every app.

use std::sync::Arc;

use anyhow::{Context, bail};
use deadpool_postgres::Pool;
use windlass::core::error::StoreError;
use windlass::core::store::Store;
use windlass::world::RealWorld;
use windlass_postgres::adopted::AdoptedTable;

use crate::args::PlaceArgs;

/// Opens a store, or the way to a server that has one.
pub async fn open_place(place: &PlaceArgs) -> anyhow::Result<Arc<dyn Store>> {
    let url = place.target();
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return open_store(url).await;
    }
    let token = std::env::var("WINDLASS_TOKEN").ok().filter(|token| !token.is_empty());
    let options = windlass_remote::Options { token, ..windlass_remote::Options::default() };
    let opened = windlass_remote::RemoteStore::connect(url, options).await;
    Ok(opened.with_context(|| format!("cannot use the server {}", without_password(url)))?)
}

/// Opens the store of a URL, and brings its schema up to date.
pub async fn open_store(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let clock = Arc::new(RealWorld::new());
    let opened = || format!("cannot open the store {}", without_password(url));
    if let Some(path) = url.strip_prefix("sqlite:") {
        let options = windlass_sqlite::Options::new(clock);
        return Ok(windlass_sqlite::SqliteStore::open(path, options).await.with_context(opened)?);
    }
    if let Some(path) = url.strip_prefix("json:") {
        let options = windlass_json::Options::new(clock);
        return Ok(windlass_json::JsonStore::open(path, options).await.with_context(opened)?);
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let options = windlass_postgres::Options::default();
        return Ok(windlass_postgres::PostgresStore::connect(url, options).await.with_context(opened)?);
    }
    bail!(
        "{:?} is not the URL of a store; write json:FILE, sqlite:FILE or postgres://USER@HOST/DATABASE",
        without_password(url)
    )
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
    Ok(windlass_json::JsonStore::open(path, options).await?)
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
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some(at) = rest[..authority_end].rfind('@') else { return url.to_owned() };
    let user = rest[..at].split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{}", &rest[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("postgres://me:secret@host:5432/db?x=1", "postgres://me@host:5432/db?x=1"),
            ("postgres://me:se@cret@host/db", "postgres://me@host/db"),
            ("postgres://host/db", "postgres://host/db"),
            ("sqlite:a@b.db", "sqlite:a@b.db"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
