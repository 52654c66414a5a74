//! What every contestant written in Rust has in common: arguments, the two
//! words with the driver, the measures themselves, and the count of handler
//! runs. A contestant says how it connects, enqueues and works, and no more.

mod ask;
mod measure;
mod seen;

use std::future::Future;

use serde::{Deserialize, Serialize};

pub use ask::Ask;
pub use seen::{now_ms, ran};

/// Whatever went wrong; a contestant that fails says so on stderr.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The payload: a moment, and filling up to 100 bytes of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    /// When it was handed over, in milliseconds since 1970.
    pub sent_ms: f64,
    /// Whatever is left of the 100 bytes.
    pub filling: String,
}

impl Work {
    /// A payload that is sent now.
    pub fn now() -> Self {
        // {"sent_ms":1700000000000.123,"filling":""} has 42 bytes.
        Self { sent_ms: now_ms(), filling: "x".repeat(58) }
    }
}

/// A contestant.
pub trait Peer: Send + Sync + Sized + 'static {
    /// Connects, and makes the schema where it is missing.
    fn connect(ask: &Ask) -> impl Future<Output = Result<Self, Fault>>;
    /// Enqueues one job; it is durable when this returns.
    fn enqueue(&self, work: Work) -> impl Future<Output = Result<(), Fault>> + Send;
    /// Enqueues a batch by the fastest way that the contestant documents.
    fn enqueue_many(&self, work: Vec<Work>) -> impl Future<Output = Result<(), Fault>> + Send;
    /// Starts a worker whose handler calls [`ran`], and returns.
    fn work(&self) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// The whole program of a contestant.
pub fn contest<P: Peer>() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(Fault::from).and_then(|runtime| {
        let ask = Ask::read(std::env::args().skip(1))?;
        runtime.block_on(measure::measure::<P>(&ask))
    });
    if let Err(fault) = done {
        eprintln!("the contestant failed: {fault}");
        std::process::exit(1);
    }
    // Workers are not stopped: whoever measures has what it wants.
    std::process::exit(0);
}
