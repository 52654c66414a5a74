//! `windlass news-nexus`: the job server of the News Nexus system.

use windlass_news_nexus::NewsNexusArgs;

use crate::exit::Code;
use crate::wiring::open_queue_file;

/// Serves until SIGTERM or SIGINT, or runs the one job that it was started for.
pub async fn run(args: NewsNexusArgs) -> anyhow::Result<Code> {
    match windlass_news_nexus::run(args, open_queue_file).await? {
        0 => Ok(Code::Done),
        // The codes of a job's process are a language of their own.
        code => std::process::exit(i32::from(code)),
    }
}
