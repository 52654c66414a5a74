//! `windlass job`: one job with all that is known of it.

use clap::Args;
use windlass_engine::core::job::Job;
use windlass_engine::core::state::State;
use windlass_report::text;

use super::explain::sentence;
use super::which::ShortId;
use crate::args::PlaceArgs;
use crate::exit::{Code, not_found};
use crate::output::{cut, fitted, plain, print_json};
use crate::say;
use crate::wiring::open_place;

/// Which.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass job 3fa9c21b\n  windlass job 3fa9c21b --json")]
pub struct JobArgs {
    /// The job's id, or its last digits
    #[arg(add = crate::names::jobs())]
    id: ShortId,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Shows it.
pub async fn run(args: JobArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let id = args.id.resolve(&*store).await?;
    let Some(job) = store.get(id).await? else {
        return Err(not_found(format!("there is no job {id}; `windlass jobs` lists them")));
    };
    if json {
        print_json(&text::job(job))?;
        return Ok(Code::Done);
    }
    for (name, value) in facts(&job) {
        say!("{name:<12} {value}");
    }
    if let Some(explanation) = store.explain(id).await? {
        say!("{:<12} {}", "now", sentence(&explanation, store.now().await?));
    }
    let steps: Vec<Vec<String>> = job
        .steps
        .iter()
        .map(|step| vec![step.name.to_string(), step.stored_at.to_string(), cut(step.output.as_str(), 60)])
        .collect();
    if !steps.is_empty() {
        say!("\n{}", fitted(&["step", "stored", "output"], &steps));
    }
    let history: Vec<Vec<String>> = job
        .history
        .iter()
        .map(|entry| {
            vec![
                entry.at.to_string(),
                entry.what.to_string(),
                entry.attempt.to_string(),
                entry.worker.as_ref().map(|worker| plain(worker.as_str())).unwrap_or_default(),
                cut(entry.error.as_deref().unwrap_or_default(), 80),
            ]
        })
        .collect();
    if !history.is_empty() {
        say!("\n{}", fitted(&["at", "what", "attempt", "worker", "error"], &history));
    }
    Ok(Code::Done)
}

fn facts(job: &Job) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("id", job.id.to_string()),
        ("kind", plain(job.spec.kind.as_str())),
        ("queue", plain(job.spec.queue.as_str())),
        ("state", job.state.name().to_string()),
        ("attempt", job.attempt.to_string()),
        ("accepted", job.created_at.to_string()),
        ("run at", job.run_at.to_string()),
    ];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("priority", Some(job.spec.priority.to_string()).filter(|text| text != "0"));
    add("key", job.spec.key.as_ref().map(|key| plain(key.as_str())));
    add("dedupe key", job.spec.dedupe_key.as_ref().map(|key| plain(key.as_str())));
    add("started", job.started_at.map(|at| at.to_string()));
    add("worker", job.worker.as_ref().map(|worker| plain(worker.as_str())));
    add("ended", job.state.ended_at().map(|at| at.to_string()));
    add("crashes", Some(job.crashes.to_string()).filter(|text| text != "0"));
    add("progress", job.progress.as_ref().map(|json| cut(json.as_str(), 200)));
    add("payload", Some(cut(job.spec.payload.as_str(), 200)));
    match &job.state {
        State::Completed { result, .. } => add("result", result.as_ref().map(|json| cut(json.as_str(), 200))),
        State::Failed { reason, .. } => add("reason", Some(reason.to_string())),
        State::Queued | State::Running(_) | State::Canceled { .. } => {}
    }
    facts
}
