//! What is done to jobs one after the other: cancel, retry, run now, delete. They differ in what they ask of the store and
//! in their words.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{STEER_MAX, Store};
use windlass_engine::world::{RealWorld, World};
use windlass_report::words::counted;

use super::which::WhichArgs;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{print_json, progress};
use crate::say;
use crate::wiring::open_place;

/// Which jobs, and whether it is only tried.
#[derive(Debug, Args)]
pub struct SteerArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// Only say which jobs it would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// What became of one job: a word for programs, a sentence for people, and what it means for the exit code.
pub struct Became {
    pub word: &'static str,
    pub said: String,
    pub code: Code,
}

impl Became {
    /// It is done, or was already.
    pub fn done(word: &'static str, said: &str) -> Self {
        Self { word, said: said.to_owned(), code: Code::Done }
    }

    /// It is refused; nothing was changed.
    pub fn refused(word: &'static str, said: impl Into<String>) -> Self {
        Self { word, said: said.into(), code: Code::Refused }
    }

    /// There is no such job.
    pub fn not_found() -> Self {
        Self { word: "not_found", said: "is not there".to_owned(), code: Code::NotFound }
    }
}

/// One of the verbs.
pub trait Steer {
    /// The verb, as `would_…` says it.
    const VERB: &'static str;
    /// What is said of all together, where each is not told of: of those that were refused alone.
    const SUM: Option<&'static str> = None;
    /// In which states jobs are looked for when nothing is said.
    const STATES: &'static [StateName];

    /// Whether a job in this state can be meant by a filter.
    fn is_for(state: StateName) -> bool;

    /// So many jobs per second at most.
    fn pace(&self) -> Option<u64> {
        None
    }

    /// Does it to these, and says what became of each.
    async fn steer(&self, store: &dyn Store, ids: Vec<JobId>) -> anyhow::Result<Vec<Became>>;
}

/// Does it to all that are meant.
pub async fn run<V: Steer>(args: &SteerArgs, verb: V, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let ids = args.which.resolve(&*store, V::STATES, V::is_for).await?;
    if args.dry_run {
        match json {
            true => print_json(&serde_json::json!({ format!("would_{}", V::VERB): ids.len(), "ids": ids }))?,
            false => say!("would {} {}", V::VERB, counted(ids.len() as u64, "job")),
        }
        return Ok(Code::Done);
    }
    let world = RealWorld::new();
    let bar = progress(V::VERB, ids.len() as u64);
    let (mut worst, mut done) = (Code::Done, 0_usize);
    // At a pace, each has its moment.
    for some in ids.chunks(if verb.pace().is_some() { 1 } else { STEER_MAX }) {
        for (id, became) in some.iter().zip(verb.steer(&*store, some.to_vec()).await?) {
            worst = worst.worst(became.code);
            done += usize::from(became.code == Code::Done);
            bar.suspend(|| tell::<V>(*id, &became, json))?;
            bar.inc(1);
        }
        if let Some(pace) = verb.pace() {
            world.sleep_ms(1_000 / pace).await;
        }
    }
    bar.finish_and_clear();
    match V::SUM {
        Some(sum) if json => print_json(&serde_json::json!({ sum: done, "asked": ids.len() }))?,
        Some(sum) => say!("{sum} {done} of {}", counted(ids.len() as u64, "job")),
        None => {}
    }
    Ok(worst)
}

fn tell<V: Steer>(id: JobId, became: &Became, json: bool) -> anyhow::Result<()> {
    let Became { word, said, code } = became;
    match (V::SUM.is_some(), json) {
        (false, true) => print_json(&serde_json::json!({ "id": id, "outcome": word }))?,
        (false, false) => say!("{id} {said}"),
        (true, _) if *code == Code::Done => {}
        (true, true) => {
            let error = serde_json::json!({ "code": code.word(), "message": format!("{id}: {said}") });
            eprintln!("{}", serde_json::json!({ "error": error }));
        }
        (true, false) => eprintln!("{id}: {said}"),
    }
    Ok(())
}
