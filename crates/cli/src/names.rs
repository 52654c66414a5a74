//! Names for completions: of queues, budgets, schedules, kinds and jobs, asked of the store that the line names.
//!
//! Whoever presses the tab key waits: what does not answer at once completes nothing, and nothing is ever made.

use std::sync::Arc;
use std::time::Duration;

use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCandidates;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::store::Store;
use windlass_report::words::short_id;

use crate::command::which::ShortId;

/// How long a store may take to answer.
const ANSWER: Duration = Duration::from_millis(800);
/// How many jobs are offered: the newest.
const JOBS_MAX: usize = 50;

/// The queues.
pub fn queues() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(async |store| Ok(store.queues().await?.iter().map(|queue| named(queue.name.as_str())).collect()))
    })
}

/// The budgets.
pub fn budgets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(async |store| {
            Ok(store.budgets().await?.iter().map(|status| named(status.budget.name.as_str())).collect())
        })
    })
}

/// The schedules.
pub fn schedules() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(async |store| {
            Ok(store.schedules().await?.iter().map(|schedule| named(schedule.name.as_str())).collect())
        })
    })
}

/// The kinds of the newest jobs, and those that workers know.
pub fn kinds() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(async |store| {
            let workers = store.workers().await?;
            let known = workers.iter().flat_map(|worker| worker.kinds.iter().flatten());
            let mut kinds: Vec<String> = known.map(ToString::to_string).collect();
            kinds.extend(newest(store).await?.iter().map(|job| job.spec.kind.to_string()));
            kinds.sort_unstable();
            kinds.dedup();
            Ok(kinds.iter().map(|kind| named(kind)).collect())
        })
    })
}

/// The newest jobs, by the digits that are shown of their ids.
pub fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(async |store| {
            let candidate = |job: &windlass_engine::core::job::Job| {
                let said = format!("{} {}", job.state.name(), job.spec.kind);
                named(&short_id(job.id)).help(Some(said.into()))
            };
            Ok(newest(store).await?.iter().take(JOBS_MAX).map(candidate).collect())
        })
    })
}

/// The steps of the jobs that the line names.
pub fn steps() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(async |store| {
            let mut steps = Vec::new();
            for id in std::env::args().filter_map(|word| word.parse::<ShortId>().ok()) {
                let Ok(id) = id.resolve(store).await else { continue };
                let job = store.get(id).await?;
                steps.extend(job.iter().flat_map(|job| &job.steps).map(|step| named(step.name.as_str())));
            }
            Ok(steps)
        })
    })
}

async fn newest(store: &dyn Store) -> Result<Vec<windlass_engine::core::job::Job>, StoreError> {
    let request = ListRequest { filter: JobFilter::default(), limit: PAGE_MAX, after: None };
    Ok(store.list(request).await?.jobs)
}

fn named(name: &str) -> CompletionCandidate {
    CompletionCandidate::new(name.to_owned())
}

/// Asks the store that the line or the environment names.
fn ask(
    question: impl AsyncFnOnce(&dyn Store) -> Result<Vec<CompletionCandidate>, StoreError>,
) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args().collect();
    let place = place(&words, |name| std::env::var(name).ok());
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let answer = async {
            let store: Arc<dyn Store> = windlass::open_existing(&place).await.ok()?;
            question(&*store).await.ok()
        };
        tokio::time::timeout(ANSWER, answer).await.ok().flatten().unwrap_or_default()
    })
}

/// Which store or server is meant: the words go before the environment.
fn place(words: &[String], variable: impl Fn(&str) -> Option<String>) -> String {
    let said = |flag: &str| {
        let joined = words.iter().find_map(|word| word.strip_prefix(&format!("{flag}=")).map(str::to_owned));
        joined
            .or_else(|| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1).cloned()))
    };
    let named = said("--url").or_else(|| said("--store"));
    let set = || variable("WINDLASS_URL").or_else(|| variable("WINDLASS_STORE"));
    named.or_else(set).unwrap_or_else(|| crate::args::STORE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_before_the_environment() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let set = |name: &str| (name == "WINDLASS_STORE").then(|| "json:q".to_owned());
        for (line, meant) in [
            ("windlass -- windlass queues pause --url http://h ma", "http://h"),
            ("windlass -- windlass queues pause --store=sqlite:x ma", "sqlite:x"),
            ("windlass -- windlass queues pause ma", "json:q"),
        ] {
            assert_eq!(place(&words(line), set), meant, "{line}");
        }
        assert_eq!(place(&[], |_| None), "sqlite:windlass.db");
    }
}
