//! What this app is to the command line.

use std::path::PathBuf;

use async_trait::async_trait;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use windlass_app::log::LogForm;
use windlass_app::{App, AppError, Exit, Host, Needs, Setting};

use crate::server::{self, Having};
use crate::settings::{self, Roles, STORE, TABLE};
use crate::verbs::{articles, check, import, kv, once, status};

/// Bitcoin News: updater, processor, feed.
pub struct BitcoinNews;

#[derive(Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The store: sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Where the feed is served
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<String>,
    /// How log lines look
    #[arg(long, global = true, value_enum, default_value_t = LogForm::Lines)]
    log: LogForm,
}

/// Where things are.
#[derive(Debug, Clone)]
pub struct Place {
    /// The URL of the store.
    pub store: String,
    /// The address of the feed.
    pub listen: String,
    /// How log lines look.
    pub log: LogForm,
}

/// What can be done; without a verb, everything in one process.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Fetch news, by UPDATER_CRON
    Updater {
        /// Now and once, and say what came of it
        #[arg(long)]
        once: bool,
    },
    /// Work on articles, all the time or by PROCESSOR_CRON
    Processor {
        /// One run of MAX_ARTICLES_PER_RUN articles, and say what came of it
        #[arg(long)]
        once: bool,
    },
    /// Serve the feed and the page
    Api,
    /// Say how many articles are pending, current, done, tried later, and why
    Status,
    /// Have articles tried again, from the first attempt on
    Retry(articles::Which),
    /// Take articles away; they do not come back
    Drop {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Give a job to every article that has none although it is not over
    Repair,
    /// Delete everything: articles, what was seen, what waits
    Clear {
        /// Without asking first
        #[arg(long)]
        yes: bool,
    },
    /// Read the documents of before, from files or from Workers KV
    Import {
        /// Files: one document each, or an object of documents by key
        files: Vec<PathBuf>,
        /// From the namespace of CLOUDFLARE_KV_NAMESPACE_ID
        #[arg(long, conflicts_with = "files")]
        from_kv: bool,
    },
    /// Say what is in order, and what a day would cost with these settings; change nothing
    Check,
    /// The four documents
    #[command(subcommand)]
    Kv(kv::KvVerb),
}

const ENDING: &str = "\
Examples:
  windlass bitcoin-news
  windlass bitcoin-news updater --once
  windlass bitcoin-news processor --once
  windlass bitcoin-news status
  windlass bitcoin-news kv get BTC_CHECKPOINT
  windlass bitcoin-news import BTC_CHECKPOINT.json BTC_ID_INDEX.json";

#[async_trait]
impl App for BitcoinNews {
    fn name(&self) -> &'static str {
        "bitcoin-news"
    }

    fn about(&self) -> &'static str {
        "Fetch news about Bitcoin, have them read, and serve the feed"
    }

    fn more(&self) -> &'static str {
        ENDING
    }

    fn settings(&self) -> &'static [Setting] {
        TABLE
    }

    fn needs(&self) -> Needs {
        Needs::Store { default: STORE }
    }

    fn arguments(&self, command: Command) -> Command {
        Arguments::augment_args(command)
    }

    /// What runs on logs to stdout in its own form, one run, too; other verbs say their answers there.
    fn logs_by_itself(&self, matches: &ArgMatches) -> bool {
        matches!(matches.subcommand_name(), None | Some("api" | "updater" | "processor"))
    }

    async fn run(&self, matches: &ArgMatches, mut host: Host) -> Result<Exit, AppError> {
        let Arguments { verb, store, listen, log } = Arguments::from_arg_matches(matches)?;
        for (name, said) in [("WINDLASS_STORE", store), ("BITCOIN_NEWS_LISTEN", listen)] {
            if let Some(said) = said {
                host.environment = host.environment.with(name, &said);
            }
        }
        let (store, listen) = settings::places(&host.environment)?;
        let place = Place { store, listen, log };
        let having = |updater, processor, api| Having { roles: Roles { updater, processor }, api };
        let runs = match verb {
            None => having(true, true, true),
            Some(Verb::Updater { once: false }) => having(true, false, false),
            Some(Verb::Processor { once: false }) => having(false, true, false),
            Some(Verb::Api) => having(false, false, true),
            Some(Verb::Updater { once: true }) => return once::updater(&host, &place).await,
            Some(Verb::Processor { once: true }) => return once::processor(&host, &place).await,
            Some(Verb::Status) => return status::run(&host, &place).await,
            Some(Verb::Retry(which)) => return articles::retry(&host, &place, which).await,
            Some(Verb::Drop { ids }) => return articles::drop_out(&host, &place, &ids).await,
            Some(Verb::Repair) => return articles::repair(&host, &place).await,
            Some(Verb::Clear { yes }) => return articles::clear(&host, &place, yes).await,
            Some(Verb::Import { files, from_kv }) => {
                return import::run(&host, &place, &files, from_kv).await;
            }
            Some(Verb::Check) => return check::run(&host, &place).await,
            Some(Verb::Kv(verb)) => return kv::run(&host, &place, verb).await,
        };
        server::run(host, place, runs).await?;
        Ok(Exit::DONE)
    }
}
