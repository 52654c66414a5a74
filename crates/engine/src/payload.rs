//! Payload types: what a job carries, as a type of the program.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that is the payload of one kind of job.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     image: String,
///     width: u32,
/// }
///
/// impl windlass::Payload for Resize {
///     const KIND: &'static str = "resize";
/// }
/// ```
pub trait Payload: Serialize + DeserializeOwned + Send + 'static {
    /// The kind of the jobs that carry it.
    const KIND: &'static str;
    /// The queue that they go to when nothing else is said.
    const QUEUE: &'static str = "default";
}
