//! The command line: one verb for each thing to do. What a verb takes is
//! written beside what it does, in `command/`.

use std::ffi::OsString;

use clap::{Args as ClapArgs, Parser, Subcommand};

#[cfg(feature = "demo")]
use crate::command::demo;
use crate::command::{
    bench, budgets, cancel, completions, config, doctor, enqueue, explain, init, job, jobs, logs, man, mcp,
    migrate, queues, retry, schedules, serve, top, work, workers,
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
    /// See it all at work: a server, the workers, and stand-ins for whoever they ask
    #[cfg(feature = "demo")]
    Demo(demo::DemoArgs),
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
    /// Show what a job said, and go on as it says more
    Logs(logs::LogsArgs),
    /// Cancel jobs
    Cancel(cancel::CancelArgs),
    /// Start a new life of final jobs
    Retry(retry::RetryArgs),
    /// Say why a job is not running
    Explain(explain::ExplainArgs),
    /// List queues; set their policy; pause, resume and delete them
    Queues(queues::QueuesArgs),
    /// List budgets; set what they allow; let them cool down; delete them
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
    /// Serve assistants by the Model Context Protocol, on stdin and stdout
    Mcp(mcp::McpArgs),
    /// Create or update the schema of a store, and say that it is ready
    Migrate(migrate::MigrateArgs),
    /// Make a folder to begin in: windlass.toml and a first worker
    Init(init::InitArgs),
    /// Check windlass.toml
    Config(config::ConfigArgs),
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages into a folder
    Man(man::ManArgs),
}

/// Which store.
#[derive(Debug, Clone, ClapArgs)]
pub struct StoreArgs {
    /// sqlite:FILE, json:FILE, postgres://USER@HOST/DATABASE, mongodb://HOST/DATABASE?replicaSet=NAME (not in every build)
    /// or http://HOST:PORT, a server
    #[arg(
        long,
        env = "WINDLASS_STORE",
        hide_env_values = true,
        default_value = "sqlite:windlass.db",
        value_name = "URL",
        global = true
    )]
    pub store: String,
}

/// A store, or a server that has one.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlaceArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// A server instead of a store, such as http://127.0.0.1:7717; its token is read from WINDLASS_TOKEN
    #[arg(long, env = "WINDLASS_URL", hide_env_values = true, value_name = "URL", global = true)]
    url: Option<String>,
}

impl PlaceArgs {
    /// The URL of the one or the other.
    pub fn target(&self) -> &str {
        self.url.as_deref().unwrap_or(&self.store.store)
    }
}

/// Puts `--store` and `--url` that stand before the verb behind it, where the verb takes them.
pub fn placed(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.peekable();
    let mut placed: Vec<OsString> = words.next().into_iter().collect();
    let mut moved = Vec::new();
    while let Some(word) = words.next_if(|word| word.to_str().is_some_and(|word| word.starts_with("--"))) {
        let text = word.to_str().unwrap_or_default();
        match text {
            "--store" | "--url" => {
                moved.push(word);
                moved.extend(words.next());
            }
            _ if text.starts_with("--store=") || text.starts_with("--url=") => moved.push(word),
            _ => placed.push(word),
        }
    }
    placed.extend(words.next());
    placed.extend(moved);
    placed.extend(words);
    placed
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_place_may_stand_before_the_verb() {
        for (said, meant) in [
            ("windlass --url http://h jobs show x", "windlass jobs --url http://h show x"),
            ("windlass --store=json:q --json jobs", "windlass --json jobs --store=json:q"),
            ("windlass jobs --url http://h", "windlass jobs --url http://h"),
            ("windlass work --kind k -- p --url x", "windlass work --kind k -- p --url x"),
            ("windlass --help", "windlass --help"),
            ("windlass", "windlass"),
        ] {
            let words = placed(said.split(' ').map(OsString::from));
            assert_eq!(words.join(OsStr::new(" ")), meant, "{said}");
        }
    }
}
