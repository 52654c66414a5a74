//! The thread that drives the connections.
//!
//! A connection lives on the runtime that opened it. On a caller's runtime it
//! would starve when handlers never yield, and end when that runtime ends; so
//! the store has a runtime of its own, and every connection is opened there.

use std::future::Future;
use std::sync::Arc;

use deadpool_postgres::Connect;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error};
use windlass_core::error::StoreError;

use crate::hosts::Hosts;

/// A runtime of the store's own. Dropped, it ends with its connections.
pub(crate) struct Driver(Option<Runtime>);

impl Driver {
    pub(crate) fn start() -> Result<Self, StoreError> {
        let mut threads = Builder::new_multi_thread();
        let runtime = threads.worker_threads(1).thread_name("windlass-postgres").enable_all().build();
        let runtime =
            runtime.map_err(|error| StoreError::Unavailable(format!("no thread for Postgres: {error}")))?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // In an async context nobody may wait for it.
            runtime.shutdown_background();
        }
    }
}

/// Opens connections on the store's runtime, whoever asks for them.
pub(crate) struct Connector {
    pub(crate) runtime: Handle,
    pub(crate) hosts: Arc<Hosts>,
}

type Connected = Result<(Client, JoinHandle<()>), Error>;

impl Connect for Connector {
    fn connect(&self, _: &Config) -> std::pin::Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let hosts = Arc::clone(&self.hosts);
        let connecting = self.runtime.spawn(async move {
            let (client, connection) = hosts.connect().await?;
            let driven = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to Postgres has ended");
                }
            });
            Ok((client, driven))
        });
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected,
                // The store is being dropped: nobody needs the connection, and
                // whoever still asks runs into the limit of its time.
                Err(_) => std::future::pending().await,
            }
        })
    }
}
