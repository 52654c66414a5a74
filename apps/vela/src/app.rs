//! What this app is to the command line.

use async_trait::async_trait;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use url::Url;
use windlass_app::log::{Log, LogForm};
use windlass_app::{App, AppError, Exit, Host, Needs, Setting};

use crate::service::{self, Wanted};
use crate::settings::{self, TABLE};
use crate::shop::{ListingId, ShopId};
use crate::task::TaskKind;
use crate::verbs::{check, connect, edit, export, import, shop, shops, task};

/// Vela: shops that are kept in sync with Etsy.
pub struct VelaApp;

#[derive(Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// Where tasks, shops and listings are kept, such as sqlite:vela.db or postgres://…
    #[arg(long, global = true)]
    store: Option<String>,
    /// How log lines look
    #[arg(long, global = true, value_enum, default_value_t = LogForm::Lines)]
    log: LogForm,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run task manager and worker in one process
    All {
        /// Where the task manager listens
        #[arg(long)]
        listen: Option<String>,
    },
    /// Run a task manager
    Manager {
        /// Where it listens
        #[arg(long)]
        listen: Option<String>,
    },
    /// Run a worker that asks task managers
    Worker {
        /// A task manager; said several times, the next is asked when one does not answer
        #[arg(long, required = true)]
        manager: Vec<Url>,
    },
    /// Connect a shop: print the link of its consent, and take the address that the seller is sent back to
    Connect {
        /// Etsy's number of the shop
        shop: ShopId,
        /// How often it is downloaded, such as 30m
        #[arg(long)]
        interval: Option<crate::shop::Interval>,
    },
    /// Say what is in order and what is not; Etsy is asked once
    Check,
    /// Ask for a task: regular_download, forced_download or upload_changes
    Task {
        /// What to do
        kind: TaskKind,
        /// With which shop
        shop: ShopId,
    },
    /// Show how all shops do
    Shops,
    /// Show how a shop does, and what went wrong
    Shop {
        /// Etsy's number of the shop
        shop: ShopId,
    },
    /// Change fields of a listing, such as title="New hat" price=12.50 tags=wool,hat
    Edit {
        /// Etsy's number of the shop
        shop: ShopId,
        /// Etsy's number of the listing
        listing: ListingId,
        /// FIELD=VALUE
        #[arg(required = true)]
        fields: Vec<String>,
        /// Of this variant, such as "Size=S", or its SKU
        #[arg(long)]
        variant: Option<String>,
        /// The change may cost a listing fee
        #[arg(long)]
        accept_fee: bool,
    },
    /// Change listings as a CSV file says; empty cells change nothing
    Import {
        /// Etsy's number of the shop
        shop: ShopId,
        /// The file; - for what comes in
        file: std::path::PathBuf,
    },
    /// Write the listings of a shop as CSV
    Export {
        /// Etsy's number of the shop
        shop: ShopId,
    },
}

const EXAMPLES: &str = "\
Examples:
  windlass vela check
  windlass vela all
  windlass vela connect 12345678
  windlass vela shops
  windlass vela task forced_download 12345678
  windlass vela export 12345678 > listings.csv
  windlass vela manager --store postgres://vela@db/vela --listen 127.0.0.1:7719
  windlass vela worker --store postgres://vela@db/vela --manager http://127.0.0.1:7719";

#[async_trait]
impl App for VelaApp {
    fn name(&self) -> &'static str {
        "vela"
    }

    fn start(&self) -> &'static str {
        "all"
    }

    fn about(&self) -> &'static str {
        "Keep shops in sync with Etsy"
    }

    fn more(&self) -> &'static str {
        EXAMPLES
    }

    fn settings(&self) -> &'static [Setting] {
        TABLE
    }

    fn needs(&self) -> Needs {
        Needs::Store { default: "sqlite:vela.db" }
    }

    fn arguments(&self, command: Command) -> Command {
        Arguments::augment_args(command)
    }

    fn logs_by_itself(&self, matches: &ArgMatches) -> bool {
        matches!(matches.subcommand_name(), Some("all" | "manager" | "worker"))
    }

    async fn run(&self, matches: &ArgMatches, mut host: Host) -> Result<Exit, AppError> {
        let Arguments { verb, store, log } = Arguments::from_arg_matches(matches)?;
        if let Some(store) = store {
            host.environment = host.environment.with("VELA_STORE", &store);
        }
        if let Verb::All { listen: Some(listen) } | Verb::Manager { listen: Some(listen) } = &verb {
            host.environment = host.environment.with("VELA_LISTEN", listen);
        }
        match verb {
            Verb::All { .. } => serve(&host, log, Wanted::All).await,
            Verb::Manager { .. } => serve(&host, log, Wanted::Manager).await,
            Verb::Worker { manager } => serve(&host, log, Wanted::Worker(manager)).await,
            Verb::Connect { shop, interval } => connect::run(&host, shop, interval).await,
            Verb::Check => check::run(&host).await,
            Verb::Task { kind, shop } => task::run(&host, kind, shop).await,
            Verb::Shops => shops::run(&host).await,
            Verb::Shop { shop } => shop::run(&host, shop).await,
            Verb::Edit { shop, listing, fields, variant, accept_fee } => {
                edit::run(&host, shop, listing, &fields, variant.as_deref(), accept_fee).await
            }
            Verb::Import { shop, file } => import::run(&host, shop, &file).await,
            Verb::Export { shop } => export::run(&host, shop).await,
        }
    }
}

async fn serve(host: &Host, form: LogForm, wanted: Wanted) -> Result<Exit, AppError> {
    let debug = settings::debug(&host.environment);
    Log::new(form, host.world.clone()).without_callers(debug).out(std::io::stdout()).start();
    service::run(host, wanted).await?;
    Ok(Exit::DONE)
}
