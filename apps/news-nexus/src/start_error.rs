//! Why the server does not start.

use windlass_app::door::DoorError;
use windlass_app::{PartError, SettingsError};
use windlass_engine::core::error::StoreError;

/// Why the server does not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is missing or makes no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// `.env` is there and cannot be read.
    #[error("the file .env cannot be read: {0}")]
    EnvFile(std::io::Error),
    /// The door cannot be opened.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// A folder or file cannot be had.
    #[error("{0} cannot be used: {1}; check that it is there and may be written")]
    File(String, std::io::Error),
    /// The database cannot be made or filled.
    #[error("{0}")]
    Database(String),
    /// The queue file cannot be used.
    #[error("the queue file cannot be used: {0}")]
    Store(#[from] StoreError),
    /// A part of it failed.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The machine refused a signal or a thread.
    #[error("the program cannot run: {0}")]
    Machine(#[from] std::io::Error),
}
