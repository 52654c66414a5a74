//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Durable background work: jobs that survive any crash.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure a store: enqueue, drain, latency.
    Bench(BenchArgs),
    /// Create or update the schema of a store, and say that it is ready.
    Migrate(StoreArgs),
}

/// Which store.
#[derive(Debug, Clone, ClapArgs)]
pub struct StoreArgs {
    /// json:FILE, sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(long, env = "WINDLASS_STORE", default_value = "sqlite:windlass.db", value_name = "URL")]
    pub store: String,
}

/// How to measure.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Every figure is of durable work: a call is answered when its commit is on disk.\n\
    Without --store a fresh SQLite file in a temporary folder is measured, and deleted.\n\
    On a store of yours the jobs go to the queue windlass-bench, and are deleted afterwards.\n\n\
    Examples:\n  windlass bench\n  windlass bench --store postgres://localhost/jobs --json\n  \
    windlass bench --only drain --jobs 1000000")]
pub struct BenchArgs {
    /// json:FILE, sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(long, env = "WINDLASS_STORE", value_name = "URL")]
    pub store: Option<String>,
    /// How many jobs each part has (the one-by-one part has a fifth of it)
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub jobs: u32,
    /// How many producers enqueue at once, one job at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub producers: u16,
    /// How many jobs one batch has
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub batch: u16,
    /// How many jobs the worker runs at once
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub slots: u16,
    /// Bytes of a payload
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub payload_bytes: u32,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<BenchPart>,
    /// One line of JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchPart {
    /// Enqueue one job at a time, by many producers at once
    EnqueueOne,
    /// Enqueue in batches, by one producer
    EnqueueBatch,
    /// Drain a backlog with one worker
    Drain,
    /// From enqueue to start on an idle worker
    Latency,
}
