//! Why the server does not start.

use std::net::SocketAddr;

use windlass_engine::WorkerError;
use windlass_engine::core::error::StoreError;

use crate::settings::SettingsError;

/// Why the server does not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is missing or makes no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// `.env` is there and cannot be read.
    #[error("the file .env cannot be read: {0}")]
    EnvFile(std::io::Error),
    /// It would be open to the network.
    #[error(
        "refusing to listen on {0}: it can be reached from other machines and no token is set, so anybody could \
         run jobs. Set WINDLASS_TOKEN to a long random text, or HOST to 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}; set HOST and PORT to an address that is free")]
    Listen(String, std::io::Error),
    /// A folder or file cannot be had.
    #[error("{0} cannot be used: {1}; check that it is there and may be written")]
    File(String, std::io::Error),
    /// The database cannot be made or filled.
    #[error("{0}")]
    Database(String),
    /// The queue file cannot be used.
    #[error("the queue file cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The worker cannot run.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The machine refused a signal or a thread.
    #[error("the program cannot run: {0}")]
    Machine(#[from] std::io::Error),
}
