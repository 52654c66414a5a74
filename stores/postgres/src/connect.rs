//! Opening: pools, checks, schema, background tasks.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::runtime::Handle;
use tokio_postgres::Config;
use windlass_core::error::StoreError;

use crate::driver::{Connector, Driver};
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
        let driver = Driver::start()?;
        let Some(handle) = driver.handle() else {
            return Err(StoreError::Unavailable("the thread for Postgres is gone".to_owned()));
        };
        let call_time = Duration::from_millis(options.call_ms);
        let opening = handle.spawn(Self::open(target, options, driver, handle.clone()));
        match tokio::time::timeout(call_time, opening).await {
            Ok(Ok(opened)) => opened.map_err(settled),
            Ok(Err(_)) | Err(_) => {
                Err(StoreError::Unavailable("Postgres could not be opened in time".to_owned()))
            }
        }
    }

    async fn open(
        target: Target,
        options: Options,
        driver: Driver,
        handle: Handle,
    ) -> Result<Arc<Self>, Fault> {
        let main = pool(&target.config, options.connections_max, &options, handle.clone())?;
        let reserved = pool(&target.config, options.reserved_max, &options, handle)?;
        let mut link = Link::of(&main).await?;
        migrate(&mut link).await?;
        let instance: String = link.row(include_str!("../sql/instance.sql"), &[]).await?.try_get(0)?;
        drop(link);
        let listen = (!target.pooled).then_some(target.config);
        let wake = Wake::start(instance, main.clone(), listen);
        Ok(Arc::new(Self::new(main, reserved, wake, options, driver)))
    }
}

fn pool(config: &Config, size_max: usize, options: &Options, handle: Handle) -> Result<Pool, Fault> {
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(config.clone(), Connector(handle), manager_config);
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
