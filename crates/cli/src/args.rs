//! The command line: one verb for each thing to do. What a verb takes is
//! written beside what it does, in `command/`.

use std::ffi::OsString;

use clap::{Args as ClapArgs, Parser, Subcommand};
use windlass_engine::core::error::Invalid;

#[cfg(feature = "demo")]
use crate::command::demo;
use crate::command::{
    bench, budgets, cancel, completions, doctor, enqueue, explain, job, jobs, logs, man, mcp, migrate,
    queues, retry, schedules, top, work, workers,
};
#[cfg(feature = "serve")]
use crate::command::{config, init, serve};

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
    #[cfg(feature = "serve")]
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
    #[cfg(feature = "serve")]
    Init(init::InitArgs),
    /// Check windlass.toml
    #[cfg(feature = "serve")]
    Config(config::ConfigArgs),
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages into a folder
    Man(man::ManArgs),
}

/// A store, or a server that has one. The environment is read where nothing is said, so that a word on the line always
/// goes before a variable that somebody exported.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct PlaceArgs {
    /// sqlite:FILE, json:FILE, postgres://USER@HOST/DATABASE, mongodb://HOST/DATABASE?replicaSet=NAME (not in every build)
    /// or http://HOST:PORT, a server; WINDLASS_STORE, or sqlite:windlass.db, when nothing is said
    #[arg(long, value_name = "URL", global = true)]
    store: Option<String>,
    /// A server instead of a store, such as http://127.0.0.1:7717, or WINDLASS_URL when nothing is said; its token is read
    /// from WINDLASS_TOKEN
    #[arg(long, value_name = "URL", global = true, conflicts_with = "store")]
    url: Option<String>,
}

/// The store when nothing is said.
pub const STORE: &str = "sqlite:windlass.db";

impl PlaceArgs {
    /// The URL of the one or the other.
    pub fn target(&self) -> String {
        self.target_by(set)
    }

    fn target_by(&self, set: impl Fn(&str) -> Option<String>) -> String {
        let said = self.url.clone().or_else(|| self.store.clone());
        let meant = said.or_else(|| set("WINDLASS_URL")).or_else(|| set("WINDLASS_STORE"));
        meant.unwrap_or_else(|| STORE.to_owned())
    }

    /// The URL of a store, for a verb that is about a store itself and not about what a server has in one.
    pub fn store(&self, verb: &str) -> anyhow::Result<String> {
        self.store_by(verb, set)
    }

    fn store_by(&self, verb: &str, set: impl Fn(&str) -> Option<String>) -> anyhow::Result<String> {
        let Self { store, url } = self;
        let named = store.clone().or_else(|| url.is_none().then(|| set("WINDLASS_STORE")).flatten());
        let server = url.is_some() || set("WINDLASS_URL").is_some();
        match named {
            Some(named) => Ok(named),
            None if server => Err(Invalid::new(
                if url.is_some() { "--url" } else { "WINDLASS_URL" },
                format!(
                    "names a server, and `windlass {verb}` is for a store itself; name the store: --store URL"
                ),
            )
            .into()),
            None => Ok(STORE.to_owned()),
        }
    }
}

/// A variable of the environment that says something.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether JSON is asked for, also by words that are wrong otherwise. What is behind `--` belongs to a program.
pub fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
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

    use clap::CommandFactory;

    use super::*;

    /// The help of each verb ends with what to type.
    #[test]
    fn every_verb_shows_how_it_is_used() {
        let command = Args::command();
        let mute: Vec<&str> = command
            .get_subcommands()
            .filter(|verb| {
                let typed = format!("windlass {}", verb.get_name());
                !verb.get_after_help().is_some_and(|help| help.to_string().contains(&typed))
            })
            .map(|verb| verb.get_name())
            .collect();
        assert_eq!(mute, Vec::<&str>::new());
    }

    #[test]
    fn what_is_said_goes_before_what_is_exported() {
        let place = |store: &str, url: &str| PlaceArgs {
            store: Some(store.to_owned()).filter(|text| !text.is_empty()),
            url: Some(url.to_owned()).filter(|text| !text.is_empty()),
        };
        let exported = |url: &'static str, store: &'static str| {
            move |name: &str| {
                let value = if name == "WINDLASS_URL" { url } else { store };
                Some(value.to_owned()).filter(|text| !text.is_empty())
            }
        };
        for (said, set, target, store) in [
            (place("", ""), exported("", ""), STORE, Some(STORE)),
            (place("", ""), exported("", "json:q"), "json:q", Some("json:q")),
            (place("", ""), exported("http://h", ""), "http://h", None),
            (place("", ""), exported("http://h", "json:q"), "http://h", Some("json:q")),
            (place("sqlite:x", ""), exported("http://h", "json:q"), "sqlite:x", Some("sqlite:x")),
            (place("", "http://i"), exported("http://h", "json:q"), "http://i", None),
        ] {
            assert_eq!(said.target_by(set), target, "{said:?}");
            let found = said.store_by("migrate", set);
            assert_eq!(found.as_deref().ok(), store, "{said:?}");
            let why = found.err().map(|error| format!("{error:#}")).unwrap_or("--store".to_owned());
            assert!(why.contains("--store"), "{why}");
        }
    }

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
