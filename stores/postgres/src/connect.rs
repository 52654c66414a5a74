//! Opening: pools, checks, schema, background tasks.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{Config, NoTls};
use windlass_core::error::StoreError;

use crate::error::Fault;
use crate::link::Link;
use crate::migrate::migrate;
use crate::options::{Options, Target};
use crate::store::PostgresStore;
use crate::wake::Wake;

impl PostgresStore {
    /// Opens the store, and makes or updates its schema `windlass`.
    ///
    /// `?pooler=transaction` in the URL says that a transaction pooler stands
    /// in between: then nothing is set per session, and new work on other
    /// machines is found by asking instead of by being told.
    pub async fn connect(url: &str, options: Options) -> Result<Arc<Self>, StoreError> {
        let target = Target::parse(url, &options)?;
        let opened =
            tokio::time::timeout(Duration::from_millis(options.call_ms), Self::open(target, options));
        match opened.await {
            Ok(opened) => opened.map_err(settled),
            Err(_) => Err(StoreError::Unavailable("Postgres could not be opened in time".to_owned())),
        }
    }

    async fn open(target: Target, options: Options) -> Result<Arc<Self>, Fault> {
        let main = pool(&target.config, options.connections_max, &options)?;
        let reserved = pool(&target.config, options.reserved_max, &options)?;
        let mut link = Link::of(&main).await?;
        migrate(&mut link).await?;
        let instance: String = link.row(include_str!("../sql/instance.sql"), &[]).await?.try_get(0)?;
        drop(link);
        let listen = (!target.pooled).then_some(target.config);
        let wake = Wake::start(instance, main.clone(), listen);
        Ok(Arc::new(Self::new(main, reserved, wake, options)))
    }
}

fn pool(config: &Config, size_max: usize, options: &Options) -> Result<Pool, Fault> {
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), NoTls, manager_config);
    Pool::builder(manager)
        .max_size(size_max.max(1))
        .wait_timeout(Some(Duration::from_millis(options.wait_ms)))
        .create_timeout(Some(Duration::from_millis(options.connect_ms)))
        .recycle_timeout(Some(Duration::from_millis(options.connect_ms)))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Unavailable(format!("no pool of connections: {error}")).into())
}

/// The error of a call that is not made again.
pub(crate) fn settled(fault: Fault) -> StoreError {
    match fault {
        Fault::Collided(why) => StoreError::Unavailable(why),
        Fault::Failed(error) => error,
    }
}
