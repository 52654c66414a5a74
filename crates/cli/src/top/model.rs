//! What one look at a store finds.

use serde::Serialize;
use windlass_engine::core::event::What;
use windlass_engine::core::id::QueueName;
use windlass_engine::core::query::QueueStatus;
use windlass_engine::core::time::Time;

/// One look at a store.
#[derive(Debug, Clone, Serialize)]
pub struct Look {
    /// When, by the store's clock.
    pub at: Time,
    /// The queues.
    pub queues: Vec<QueueStatus>,
    /// Workers that are alive, and their slots.
    pub workers: usize,
    /// How many jobs these can run at once.
    pub slots: u32,
    /// Jobs that are running, newest first.
    pub running: Vec<Running>,
    /// Jobs that failed, newest first.
    pub failures: Vec<Failure>,
    /// What happened since the look before, by queue; nothing at the first look.
    #[serde(skip)]
    #[cfg_attr(not(feature = "top"), expect(dead_code, reason = "for the charts of the screen"))]
    pub happened: Option<Vec<(QueueName, What, u64)>>,
}

/// A job that is running.
#[derive(Debug, Clone, Serialize)]
pub struct Running {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Who runs it.
    pub worker: String,
    /// Since when.
    pub since: Time,
    /// How far it is.
    pub progress: Option<String>,
}

/// A job that failed.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// When.
    pub at: Time,
    /// Why.
    pub error: String,
}
