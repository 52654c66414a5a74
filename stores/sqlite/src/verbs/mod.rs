//! A file for each verb of a store.

pub(crate) mod audit;
pub(crate) mod batches;
pub(crate) mod budgets;
pub(crate) mod claim;
pub(crate) mod enqueue;
pub(crate) mod enqueue_in;
pub(crate) mod events;
pub(crate) mod expire;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod offered;
pub(crate) mod operate;
pub(crate) mod prune;
pub(crate) mod queues;
pub(crate) mod records;
pub(crate) mod scan;
pub(crate) mod schedules;
pub(crate) mod settle;
pub(crate) mod worker_writes;
pub(crate) mod workers;
