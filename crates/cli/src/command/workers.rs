//! `windlass workers`: who is there.

use clap::Args;
use windlass_engine::core::query::WORKER_ALIVE_MS;
use windlass_report::text;

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{ago, fitted, plain, print_json};
use crate::say;
use crate::wiring::open_place;

/// Which store.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass workers\n  windlass workers --url http://127.0.0.1:7717 --json"
)]
pub struct WorkersArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Lists them.
pub async fn run(args: WorkersArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let (workers, now) = (text::workers(&*store).await?, store.now().await?);
    if json {
        workers.into_iter().try_for_each(|worker| print_json(&worker.text(now)))?;
        return Ok(Code::Done);
    }
    if workers.is_empty() {
        eprintln!("no worker is there; `windlass work --kind KIND -- PROGRAM` starts one");
        return Ok(Code::Done);
    }
    // A column that says nothing of anybody would make the others narrower.
    let crashed = workers.iter().any(|worker| worker.crashed_at().is_some());
    let rows = workers.iter().map(|worker| {
        let (last_crash, worker) = (worker.crashed_at(), &worker.status);
        let queues: Vec<String> = worker.queues.iter().map(|queue| plain(queue.as_str())).collect();
        let alive = now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS;
        let mut row = vec![
            plain(worker.name.as_str()),
            format!("{}/{}", worker.running, worker.slots),
            queues.join(","),
            ago(worker.seen_at, now),
            if alive { "alive" } else { "silent" }.into(),
        ];
        row.extend(crashed.then(|| last_crash.map(|at| ago(at, now)).unwrap_or_default()));
        row.extend([&worker.version, &worker.host].map(|text| plain(text.as_deref().unwrap_or_default())));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut head = vec!["worker", "running", "queues", "seen", "status"];
    head.extend(crashed.then_some("last crash"));
    head.extend(["version", "host"]);
    say!("{}", fitted(&head, &rows));
    Ok(Code::Done)
}
