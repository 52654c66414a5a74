//! One file for each verb: what it takes, what it does, what it says.

pub mod bench;
pub mod budgets;
pub mod cancel;
pub mod completions;
#[cfg(feature = "serve")]
pub mod config;
pub mod delete;
#[cfg(feature = "demo")]
pub mod demo;
pub mod doctor;
pub mod enqueue;
pub mod explain;
pub mod filter;
#[cfg(feature = "serve")]
pub mod init;
pub mod job;
pub mod jobs;
pub mod logs;
pub mod man;
pub mod mcp;
pub mod migrate;
pub mod queues;
pub mod retry;
pub mod run;
pub mod schedules;
#[cfg(feature = "serve")]
pub mod serve;
mod spoken;
pub mod steer;
pub mod top;
pub mod which;
pub mod work;
pub mod workers;

use crate::args::Verb;
use crate::exit::Code;

/// Does what was asked.
pub async fn run(verb: Verb, json: bool) -> anyhow::Result<Code> {
    match verb {
        #[cfg(feature = "serve")]
        Verb::Serve(args) => serve::run(args, json).await,
        #[cfg(feature = "demo")]
        Verb::Demo(args) => demo::run(args, json).await,
        Verb::Work(args) => work::run(args, json).await,
        Verb::Enqueue(args) => enqueue::run(args, json).await,
        Verb::Jobs(args) => jobs::run(args, json).await,
        Verb::Logs(args) => logs::run(args, json).await,
        Verb::Job(args) => job::run(args, json).await,
        Verb::Cancel(args) => cancel::run(args, json).await,
        Verb::Retry(args) => retry::run(args, json).await,
        Verb::Explain(args) => explain::run(args, json).await,
        Verb::Queues(args) => queues::run(args, json).await,
        Verb::Budgets(args) => budgets::run(args, json).await,
        Verb::Schedules(args) => schedules::run(args, json).await,
        Verb::Workers(args) => workers::run(args, json).await,
        Verb::Top(args) => top::run(args, json).await,
        Verb::Doctor(args) => doctor::run(args, json).await,
        Verb::Bench(args) => bench::run(args, json).await.map(|()| Code::Done),
        #[cfg(feature = "serve")]
        Verb::Init(args) => init::run(args, json),
        // Its protocol is JSON already.
        Verb::Mcp(args) => mcp::run(args).await,
        Verb::Migrate(args) => migrate::run(args, json).await,
        #[cfg(feature = "serve")]
        Verb::Config(args) => config::run(args, json).await,
        // These two write texts for other programs: a shell, and man.
        Verb::Completions(args) => completions::run(args),
        Verb::Man(args) => man::run(args),
    }
}
