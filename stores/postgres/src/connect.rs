//! Opening: pools, checks, schema, background tasks.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_postgres::Config;
use windlass_core::error::StoreError;

use crate::driver::{Connector, Driver};
use crate::epoch::configure;
use crate::error::Fault;
use crate::hosts::Hosts;
use crate::link::{Lines, Link};
use crate::migrate::{installed, migrate};
use crate::options::{Options, Target};
use crate::pulse::Pulse;
use crate::store::PostgresStore;
use crate::wake::{Listen, Wake};
use crate::warm::warm_up;

impl PostgresStore {
    /// Connects to the database of a URL, with the options that fit most.
    pub fn connect(url: &str) -> BoxFuture<'_, Result<Arc<Self>, StoreError>> {
        Self::connect_with(url, Options::default())
    }

    /// Opens the store, and makes or updates its schema `windlass`.
    ///
    /// Where a transaction pooler stands in between (it is recognised; `?pooler=` in
    /// the URL says it, too), nothing is set per session, and new work on other
    /// machines is found by reading whether there is any instead of by being told.
    pub fn connect_with(url: &str, options: Options) -> BoxFuture<'_, Result<Arc<Self>, StoreError>> {
        Box::pin(Self::connected(url, options))
    }

    async fn connected(url: &str, options: Options) -> Result<Arc<Self>, StoreError> {
        let target = Target::find(url, &options).await?;
        let connections = Connections::of(&target, options)?;
        let handle = connections.handle()?;
        let call_time = connections.pulse.call_time();
        let opening = handle.spawn(Self::open(target, connections));
        match tokio::time::timeout(call_time, opening).await {
            Ok(Ok(opened)) => opened.map_err(settled),
            Ok(Err(_)) | Err(_) => {
                Err(StoreError::Unavailable("Postgres could not be opened in time".to_owned()))
            }
        }
    }

    /// Whether the database has a store, of whatever version; nothing is made.
    pub fn is_there(url: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(Self::looked_for(url))
    }

    async fn looked_for(url: &str) -> Result<bool, StoreError> {
        let options = Options::default();
        let target = Target::find(url, &options).await?;
        let connections = Connections::of(&target, options)?;
        let (handle, call_time) = (connections.handle()?, connections.pulse.call_time());
        let looking = handle.spawn(async move { installed(&connections.link().await?).await });
        match tokio::time::timeout(call_time, looking).await {
            Ok(Ok(found)) => found.map(|version| version.is_some()).map_err(settled),
            Ok(Err(_)) | Err(_) => {
                Err(StoreError::Unavailable("Postgres could not be opened in time".to_owned()))
            }
        }
    }

    async fn open(target: Target, connections: Connections) -> Result<Arc<Self>, Fault> {
        let link = connections.link().await?;
        migrate(&link).await?;
        configure(&link, target.epochs, connections.given_now()).await?;
        let instance: String = link.row(sql!("server", "instance"), &[]).await?.try_get(0)?;
        if !target.pooled {
            warm_up(&link, &instance).await;
        }
        drop(link);
        let listen = sql!("event", "listen").to_owned();
        let listen = (!target.pooled).then(|| connections.listen_to(listen));
        let wake = Wake::start(instance, connections.main.clone(), listen);
        Ok(Arc::new(Self::new(wake, connections)))
    }
}

/// Connections for a program's own tables, by the same URL and with the same
/// encryption as a store's. They live on the runtime of the caller.
pub fn pool_of(url: &str, options: &Options) -> Result<Pool, StoreError> {
    let target = Target::parse(url, options)?;
    pool(target.hosts(options), options.connections_max, options, Handle::current()).map_err(settled)
}

/// The connections of a store or of an adopted table, and its clock.
pub(crate) struct Connections {
    main: Lines,
    reserved: Lines,
    hosts: Arc<Hosts>,
    pulse: Pulse,
    /// A transaction pooler stands in between.
    pub(crate) pooled: bool,
    options: Options,
    /// Last, since fields are dropped in order: what uses it goes first.
    driver: Driver,
}

impl Connections {
    pub(crate) async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        Self::of(&Target::find(url, &options).await?, options)
    }

    fn of(target: &Target, options: Options) -> Result<Self, StoreError> {
        let driver = Driver::start()?;
        let handle = driver.handle().ok_or_else(gone)?;
        let hosts = target.hosts(&options);
        let lines = |size_max| {
            let pool = pool(Arc::clone(&hosts), size_max, &options, handle.clone()).map_err(settled)?;
            Ok::<_, StoreError>(Lines { pool, named: !target.pooled })
        };
        let (main, reserved) = (lines(options.connections_max)?, lines(options.reserved_max)?);
        let call_time = Duration::from_millis(options.call_ms);
        let pulse =
            Pulse::start(&handle, Arc::clone(&hosts), vec![main.clone(), reserved.clone()], call_time);
        Ok(Self { main, reserved, hosts, pulse, pooled: target.pooled, options, driver })
    }

    pub(crate) fn handle(&self) -> Result<Handle, StoreError> {
        self.driver.handle().ok_or_else(gone)
    }

    /// How to listen on a channel, unless a pooler stands in between.
    pub(crate) fn listen(&self, channel: &str) -> Option<Listen> {
        (!self.pooled).then(|| self.listen_to(format!("LISTEN {channel}")))
    }

    /// The connections of whoever looks by itself.
    pub(crate) fn lines(&self) -> Lines {
        self.main.clone()
    }

    /// What waits for calls.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// What a session of somebody else says, who sets nothing.
    pub(crate) async fn plainly(&self, query: &str) -> Option<String> {
        self.hosts.plainly(query).await
    }

    /// What listens by this statement.
    fn listen_to(&self, listen: String) -> Listen {
        Listen { hosts: Arc::clone(&self.hosts), losses: self.pulse.losses(), listen }
    }

    /// The time that a test injected; nothing lets the database's clock decide.
    pub(crate) fn given_now(&self) -> Option<i64> {
        self.options.clock.as_ref().map(|clock| clock.wall().ms())
    }

    /// A connection for enqueues, claims and questions.
    pub(crate) async fn link(&self) -> Result<Link, Fault> {
        Link::of(&self.main).await
    }

    /// A connection for what a worker must be able to write at any time.
    pub(crate) async fn reserved_link(&self) -> Result<Link, Fault> {
        Link::of(&self.reserved).await
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the thread for Postgres is gone".to_owned())
}

fn pool(hosts: Arc<Hosts>, size_max: usize, options: &Options, runtime: Handle) -> Result<Pool, Fault> {
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    // Which hosts there are, the connector knows.
    let manager = Manager::from_connect(Config::new(), Connector { runtime, hosts }, manager_config);
    Pool::builder(manager)
        .max_size(size_max.max(1))
        // The one that was used last knows the statements best.
        .queue_mode(QueueMode::Lifo)
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
        // A claim that can be made smaller is made again; this one was made with an enqueue, and neither is done.
        Fault::TooMuch(fit) => {
            StoreError::Busy(format!("only {fit} of the jobs fit into one answer. Ask for fewer"))
        }
        Fault::Failed(error) => error,
    }
}
