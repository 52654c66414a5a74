//! Jobs as processes of their own.
//!
//! The program gets the payload on stdin and who it is in its environment:
//! `WINDLASS_JOB_ID`, `WINDLASS_FENCE`, `WINDLASS_ATTEMPT`, `WINDLASS_KIND`,
//! when steps were stored `WINDLASS_STEPS`, the path of a JSON file with their
//! outputs by name, and `TRACEPARENT` when the job was enqueued in a trace. It speaks by [`protocol`] lines on stdout; its exit
//! code says how it ended: 0 completed, 65 failed for good, anything else try
//! again.
//!
//! It runs in a process group of its own and dies with the worker, even when
//! the worker is killed with -9. To stop it the group gets SIGTERM, time, and
//! SIGKILL. All that it started ends with it, also what left its group, its
//! session and its environment: between worker and program stands a keeper, a
//! small process that inherits every orphan of the attempt. Should somebody
//! kill worker and keepers alike, the next worker on the machine finds what is
//! left ([`sweep_orphans`]): by its control group where the system lets us make
//! some, otherwise by a mark in its environment, which one that hides can take off.
//!
//! Which programs may run is the operator's to say, here, and never the payload's.

mod cgroup;
mod command;
mod inside;
mod keeper;
mod output;
pub mod protocol;
mod spawn;
mod tree;

pub use command::{Command, CommandHandler, Limits};
pub use inside::Inside;
pub use output::Pipe;
pub use tree::{finds_all_orphans, sweep_orphans};

/// The exit code by which a program says that trying again is of no use (EX_DATAERR).
pub const EXIT_PERMANENT: i32 = 65;
