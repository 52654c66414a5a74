//! Faults of what the store is built on: disks, clocks, files, other processes.
//! The numbers are those of the failure catalogue.

#[path = "../support/audit.rs"]
mod audit;

mod clock;
mod crash_points;
mod crowd;
mod cut;
mod failing_disk;
mod full_disk;
mod lines;
mod log_growth;
mod migration;
mod offers;
mod other_processes;
mod pruning;
mod scene;
mod schema;
