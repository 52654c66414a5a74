//! For tests of your own jobs: a store in memory, a handler run by hand, time
//! that jumps. Behind the feature `testing`.
//!
//! ```
//! use std::time::Duration;
//! use windlass_engine::testing::{TestBench, enqueued, run_job};
//! use windlass_engine::{Context, Failure, Job, JobRequest};
//! # use serde::{Deserialize, Serialize};
//!
//! # #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! # struct SendMail { to: String }
//! # impl Job for SendMail { const KIND: &'static str = "send-mail"; type Output = usize; }
//! async fn send_mail(mail: SendMail, ctx: Context) -> Result<usize, Failure> {
//!     if ctx.attempt() < 3 {
//!         Err("the server is away")?;
//!     }
//!     Ok(mail.to.len())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let mail = || SendMail { to: "ada@example.com".into() };
//! // One attempt, without a worker.
//! assert!(matches!(run_job(send_mail, mail()).await, Err(Failure::Retry { .. })));
//!
//! // What was enqueued.
//! let bench = TestBench::new();
//! let job = bench.client.enqueue(mail()).ladder("1h 2h").await.unwrap();
//! assert_eq!(enqueued::<SendMail>(&bench.store).await, [mail()]);
//!
//! // A whole ladder: three hours in no time.
//! bench.worker().handle(send_mail).run_until_idle().await.unwrap();
//! assert_eq!(job.wait().await.unwrap(), 15);
//! # }
//! ```

mod bench;
mod world;

pub use bench::{TestBench, enqueued, run_job, run_job_with};
pub use windlass_core::memory::MemoryStore;
pub use world::TestWorld;
