//! `windlass mcp`: a server for assistants, on stdin and stdout.

use clap::Args;

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::wiring::open_place;

/// Which store, and what may be done.
#[derive(Debug, Args)]
#[command(
    after_help = "Speaks the Model Context Protocol on stdin and stdout. With --url the token's role decides, too.\n\n\
    Examples:\n  claude mcp add windlass -- windlass mcp --url http://127.0.0.1:7717\n  windlass mcp --store sqlite:windlass.db --act"
)]
pub struct McpArgs {
    /// Let it enqueue, cancel, retry, run and delete jobs; otherwise it looks, and counts what that would be for
    #[arg(long)]
    act: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Serves until stdin ends.
pub async fn run(args: McpArgs) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    crate::mcp::serve(store, args.act, input, tokio::io::stdout()).await?;
    Ok(Code::Done)
}
