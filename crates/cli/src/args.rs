//! The command line: one verb for each thing to do. What a verb takes is
//! written beside what it does, in `command/`.

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::command::{
    bench, budgets, cancel, completions, config, doctor, enqueue, explain, job, jobs, migrate, queues, retry,
    schedules, serve, top, work, workers,
};

/// Durable background work: jobs that survive any crash.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    about,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused (nothing was changed).\n\
        Logs go to stderr; WINDLASS_LOG=info says more."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// JSON for programs instead of tables for people
    #[arg(long, global = true)]
    pub json: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve the HTTP API and the dashboard
    Serve(serve::ServeArgs),
    /// Run jobs of one or more kinds with programs of yours
    Work(work::WorkArgs),
    /// Accept a job
    Enqueue(enqueue::EnqueueArgs),
    /// List jobs, newest first
    Jobs(jobs::JobsArgs),
    /// Show one job with all that is known of it
    Job(job::JobArgs),
    /// Cancel jobs
    Cancel(cancel::CancelArgs),
    /// Start a new life of final jobs
    Retry(retry::RetryArgs),
    /// Say why a job is not running
    Explain(explain::ExplainArgs),
    /// List queues; set their policy; pause and resume them
    Queues(queues::QueuesArgs),
    /// List budgets; set what they allow; let them cool down
    Budgets(budgets::BudgetsArgs),
    /// List schedules; set, pause, run and delete them
    Schedules(schedules::SchedulesArgs),
    /// List workers
    Workers(workers::WorkersArgs),
    /// Watch queues, running jobs and failures live
    Top(top::TopArgs),
    /// Look for what is wrong, and say what to do
    Doctor(doctor::DoctorArgs),
    /// Measure a store: enqueue, drain, latency
    Bench(bench::BenchArgs),
    /// Create or update the schema of a store, and say that it is ready
    Migrate(migrate::MigrateArgs),
    /// Check windlass.toml
    Config(config::ConfigArgs),
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
}

/// Which store.
#[derive(Debug, Clone, ClapArgs)]
pub struct StoreArgs {
    /// json:FILE, sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        env = "WINDLASS_STORE",
        hide_env_values = true,
        default_value = "sqlite:windlass.db",
        value_name = "URL"
    )]
    pub store: String,
}

/// A store, or a server that has one.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlaceArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// A server instead of a store, such as http://127.0.0.1:7717; its token is read from WINDLASS_TOKEN
    #[arg(long, env = "WINDLASS_URL", hide_env_values = true, value_name = "URL")]
    url: Option<String>,
}

impl PlaceArgs {
    /// The URL of the one or the other.
    pub fn target(&self) -> &str {
        self.url.as_deref().unwrap_or(&self.store.store)
    }
}
