//! Jobs as types of the program: what one carries, and how it wants to be run.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that is the payload of one kind of job.
///
/// Two lines are needed; everything else has a default, and can be said
/// otherwise at each enqueue.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use windlass_engine::Job;
///
/// #[derive(Serialize, Deserialize)]
/// struct SendMail {
///     shop: u64,
///     to: String,
/// }
///
/// impl Job for SendMail {
///     const KIND: &'static str = "send-mail";
///     type Output = ();
///
///     const QUEUE: &'static str = "mail";
///     const LADDER: Option<&'static str> = Some("1m 5m 1h");
///     const TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));
///
///     fn key(&self) -> Option<String> {
///         Some(format!("shop-{}", self.shop))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "this type does not implement `Job`",
    note = "say what kind of job carries it: `impl Job for {Self} {{ const KIND: &'static str = \"…\"; type Output = (); }}`",
    note = "it must also be `Serialize` and `Deserialize`: `#[derive(serde::Serialize, serde::Deserialize)]`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The kind of the jobs that carry it.
    const KIND: &'static str;
    /// What a handler returns when it succeeds; `()` for nothing.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The queue.
    const QUEUE: &'static str = "default";
    /// Delays between attempts, such as `1m 5m 1h`; `none` for one attempt. Nothing: the queue's.
    const LADDER: Option<&'static str> = None;
    /// How many attempts there are, when not as many as the ladder has rungs and one.
    const MAX_ATTEMPTS: Option<u32> = None;
    /// How long one attempt may take.
    const TIMEOUT: Option<Duration> = None;
    /// Higher first.
    const PRIORITY: i16 = 0;
    /// Budgets that must allow the job.
    const BUDGETS: &'static [&'static str] = &[];

    /// Of the running jobs of the queue, at most one has a given key.
    fn key(&self) -> Option<String> {
        None
    }

    /// While a job with this dedupe key is not final, enqueueing answers with that one.
    fn dedupe_key(&self) -> Option<String> {
        None
    }
}
