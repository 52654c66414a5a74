//! The gate before the claims: nothing is claimed while the operator has to
//! act. One message is let through from time to time, to see whether it is over.

mod admission;
mod ends;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::store::LeaseRef;
use windlass_engine::world::World;

use crate::meter::Meter;
use crate::names::Names;
use crate::probe::Probe;
use crate::stops::{Cooling, Stops};
use crate::trouble::Trouble;

/// How long nothing is claimed before one message is tried, at first and at most.
const REST_MS: std::ops::RangeInclusive<u64> = 60_000..=900_000;
/// How often the rows are read that may hold back a worker, while nothing does and while something does.
const LOOK_MS: u64 = 5_000;
const LOOK_HELD_MS: u64 = 1_000;
/// How soon it is tried again when there was no message to try with.
const UNTRIED_MS: u64 = 15_000;
/// So many messages are remembered that closed the gate.
const BLAMED_MAX: usize = 1_000;
/// So many of those are stepped over to find another that tries whether it is over.
const STEPPED_OVER_MAX: usize = 8;
/// What stops the claiming when the claim itself does not fit the table.
const TABLE: &str = "table";

/// The gate.
pub(crate) struct Gate {
    world: Arc<dyn World>,
    meter: Arc<Meter>,
    stops: Stops,
    probe: Probe,
    names: Arc<Names>,
    state: Mutex<State>,
    /// One at a time asks whether it may go on.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// By provider: why nothing is claimed until the operator has acted.
    closed: BTreeMap<&'static str, Closed>,
    /// Providers that want to be left alone, as they were when somebody last looked.
    cooling: Vec<Cooling>,
    looked_ms: Option<u64>,
    /// How often each provider has done its work in a stage.
    worked: BTreeMap<(&'static str, &'static str), u64>,
    /// On account of which provider, and in which stage, a message closed the gate; and how often that one had worked
    /// there by then.
    blamed: HashMap<JobId, (&'static str, &'static str, u64)>,
    /// A claim is under way for a message that tries whether it is over.
    asks_for_trial: bool,
    /// The message that tries whether it is over.
    trial: Option<JobId>,
    /// Attempts whose end cannot be written in any form: they are held until it can.
    unended: HashSet<LeaseRef>,
    /// The worker ends: nothing is held any more.
    ending: bool,
}

#[derive(Debug, Clone)]
struct Closed {
    why: String,
    /// In which stage it was refused, if a message was: what works in another does not mean that this is over.
    stage: Option<&'static str>,
    rest_ms: u64,
    /// Since the start of the machine.
    until_ms: u64,
    /// Whether the others can see it: then it is lifted when they cannot any more.
    told: bool,
    /// One message is trying whether it is over.
    trying: bool,
}

/// What may be claimed.
enum Pass {
    /// All that is asked for.
    All,
    /// One message, to try whether it is over.
    One,
    Nothing,
}

impl Gate {
    pub(crate) fn new(
        world: Arc<dyn World>,
        meter: Arc<Meter>,
        stops: Stops,
        probe: Probe,
        names: Arc<Names>,
    ) -> Arc<Self> {
        let (state, asking) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { world, meter, stops, probe, names, state, asking })
    }

    /// Asks the providers before the first message does. What a worker of this name had to say in a life before is over.
    pub(crate) async fn start(&self) {
        // A database that does not answer is the claim's business.
        let _ = self.stops.lift(None).await;
        for trouble in self.probe.all().await {
            self.close(&trouble, None).await;
        }
    }

    /// Nothing more is claimed: the operator has to act. `stage` is where a message was refused.
    pub(crate) async fn close(&self, trouble: &Trouble, stage: Option<&'static str>) {
        let now_ms = self.world.boot_ms();
        let why = trouble.to_string();
        let rest_ms = {
            let mut state = self.state();
            let known = state.closed.get(trouble.provider);
            if known.is_some_and(|closed| now_ms < closed.until_ms && !closed.trying) {
                return;
            }
            let rest_ms = known.map_or(*REST_MS.start(), |closed| (closed.rest_ms * 2).min(*REST_MS.end()));
            let until_ms = now_ms + rest_ms;
            // A probe says nothing of a stage: the message that was refused did.
            let stage = stage.or(known.and_then(|closed| closed.stage));
            let closed = Closed { why: why.clone(), stage, rest_ms, until_ms, told: false, trying: false };
            state.closed.insert(trouble.provider, closed);
            rest_ms
        };
        tracing::error!(
            reason = why,
            provider = trouble.provider,
            tryAgainMs = rest_ms,
            "Claiming stopped: the operator must act; {}",
            next_step(trouble.provider)
        );
        if self.stops.put(trouble.provider, &why, rest_ms).await.is_ok()
            && let Some(closed) = self.state().closed.get_mut(trouble.provider)
        {
            closed.told = true;
        }
    }

    /// Whether what a message met is its own affair, and nobody's settings are to blame: it alone closed the gate before,
    /// and the provider has worked for others in that stage since.
    pub(crate) fn is_its_own(&self, job: JobId, trouble: &Trouble, stage: &'static str) -> bool {
        let mut state = self.state();
        // Others were refused as well.
        if state.closed.get(trouble.provider).is_some_and(|closed| !closed.trying) {
            state.blamed.remove(&job);
            return false;
        }
        let worked = state.worked.get(&(trouble.provider, stage)).copied().unwrap_or_default();
        if state.blamed.len() >= BLAMED_MAX {
            state.blamed.clear();
        }
        let before = state.blamed.insert(job, (trouble.provider, stage, worked));
        before
            .is_some_and(|(provider, at, then)| (provider, at) == (trouble.provider, stage) && then < worked)
    }

    /// A provider wants to be left alone.
    pub(crate) async fn cool(&self, trouble: &Trouble) {
        // Without its reason a cool-down is one all the same.
        let _ = self.stops.explain(trouble.provider, &trouble.to_string()).await;
        self.state().looked_ms = None;
    }

    /// A provider has done its work in a stage: whatever was wrong with it there is over.
    pub(crate) async fn open(&self, provider: &'static str, stage: &'static str) {
        let (was_closed, was_cooling) = {
            let mut state = self.state();
            *state.worked.entry((provider, stage)).or_default() += 1;
            let before = state.cooling.len();
            state.cooling.retain(|one| one.provider != provider || one.for_ms > 0);
            let is_over = |closed: &Closed| closed.stage.is_none_or(|refused| refused == stage);
            let was_closed = state.closed.get(provider).is_some_and(is_over);
            if was_closed {
                state.closed.remove(provider);
            }
            (was_closed, state.cooling.len() < before)
        };
        if was_cooling {
            let _ = self.stops.warm(provider).await;
        }
        if was_closed {
            let _ = self.stops.lift(Some(provider)).await;
        }
        if was_closed || was_cooling {
            tracing::info!(provider, "Claiming goes on");
        }
    }

    /// The worker is told to end: it does not wait for a table to be put right.
    pub(crate) fn ending(&self) {
        self.state().ending = true;
    }

    /// The worker ends, and with it what it had to say.
    pub(crate) async fn end(&self) {
        if !self.state().closed.is_empty() {
            let _ = self.stops.lift(None).await;
        }
    }

    /// Why nothing is claimed until the operator has acted, if that is so.
    pub(crate) fn why_closed(&self) -> Option<String> {
        let state = self.state();
        let all: Vec<&str> = state.closed.values().map(|closed| closed.why.as_str()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Why nothing is claimed for a while, if that is so, and for how many seconds it was when somebody last looked.
    pub(crate) fn why_cooling(&self) -> Option<String> {
        let state = self.state();
        let all: Vec<String> = state
            .cooling
            .iter()
            .map(|one| {
                let why = one.why.as_ref().unwrap_or(&one.provider);
                match one.for_ms {
                    ..=0 => format!("{why}; the next message tries whether it is over"),
                    ms => format!("{why} for {} s", (ms + 999) / 1_000),
                }
            })
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// What may be claimed now.
    async fn pass(&self) -> Pass {
        self.look().await;
        if self.is_open() {
            return Pass::All;
        }
        // Whoever tried would only be held as well.
        if !self.state().unended.is_empty() {
            return Pass::Nothing;
        }
        let _asking = self.asking.lock().await;
        let may_try = if !self.state().closed.is_empty() {
            self.may_reopen().await
        } else {
            let resting = self.state().cooling.iter().any(|one| one.for_ms > 0);
            !self.is_open() && !resting && self.stops.may_try().await.unwrap_or(false)
        };
        if may_try { Pass::One } else { Pass::Nothing }
    }

    fn is_open(&self) -> bool {
        let state = self.state();
        state.closed.is_empty() && state.cooling.is_empty()
    }

    /// Whether one message may try what the operator should have put right. A provider that can be asked for
    /// nothing is asked first.
    async fn may_reopen(&self) -> bool {
        let now_ms = self.world.boot_ms();
        let due: Vec<&'static str> = {
            let mut state = self.state();
            if state.closed.values().any(|closed| now_ms < closed.until_ms) {
                return false;
            }
            state.closed.values_mut().for_each(|closed| closed.until_ms = now_ms);
            state.closed.keys().copied().collect()
        };
        let mut refused = false;
        for provider in due {
            if let Some(trouble) = self.probe.one(provider).await {
                self.close(&trouble, None).await;
                refused = true;
            }
        }
        let again: Vec<(&'static str, Closed)> = {
            let mut state = self.state();
            let rest = state.closed.iter_mut().filter(|(_, closed)| closed.until_ms <= now_ms);
            rest.map(|(provider, closed)| {
                closed.until_ms = now_ms + closed.rest_ms;
                closed.trying = true;
                (*provider, closed.clone())
            })
            .collect()
        };
        for (provider, Closed { why, rest_ms, .. }) in again {
            if self.stops.put(provider, &why, rest_ms).await.is_ok()
                && let Some(closed) = self.state().closed.get_mut(provider)
            {
                closed.told = true;
            }
        }
        !refused
    }

    /// There was no message to try with: the next one that comes may.
    async fn untried(&self) {
        let cooling = {
            let mut state = self.state();
            let now_ms = self.world.boot_ms();
            for closed in state.closed.values_mut() {
                (closed.until_ms, closed.trying) = (now_ms + UNTRIED_MS, false);
            }
            !state.cooling.is_empty()
        };
        if cooling {
            let _ = self.stops.untried().await;
        }
    }

    /// The message that tried has ended well without coming to the stage that was refused, since it had that one
    /// already: the next one tries.
    fn tried_in_vain(&self, job: JobId) {
        let mut state = self.state();
        if state.trial.take_if(|trial| *trial == job).is_none() {
            return;
        }
        let now_ms = self.world.boot_ms();
        for closed in state.closed.values_mut().filter(|closed| closed.trying) {
            (closed.until_ms, closed.trying) = (now_ms, false);
        }
    }

    /// Reads the rows that may hold back this worker, unless that was done a moment ago.
    async fn look(&self) {
        let now_ms = self.world.boot_ms();
        {
            let mut state = self.state();
            let every =
                if state.closed.is_empty() && state.cooling.is_empty() { LOOK_MS } else { LOOK_HELD_MS };
            if state.looked_ms.is_some_and(|at_ms| now_ms < at_ms + every) {
                return;
            }
            state.looked_ms = Some(now_ms);
        }
        // A database that does not answer is the claim's business.
        let Ok(held) = self.stops.look().await else { return };
        let mut state = self.state();
        state.cooling = held.cooling;
        for (provider, closed) in &mut state.closed {
            if closed.told && !held.stops.iter().any(|known| known == provider) {
                tracing::info!(provider, "Told to try again");
                closed.told = false;
                closed.until_ms = now_ms;
                closed.rest_ms = *REST_MS.start();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the table is not what it was, or never takes what is written into it.
fn is_of_the_table(error: &StoreError) -> bool {
    matches!(error, StoreError::Schema(_) | StoreError::Broken(_) | StoreError::Unfit(_))
}

/// What the operator should look at.
fn next_step(provider: &str) -> &'static str {
    match provider {
        "objects" => "check the bucket's name, the credentials and their rights",
        "database" | TABLE => {
            "look with `windlass nurse-tour check`, put the tables and the role's rights right, and start the worker \
             anew if a column has another type now"
        }
        "openai" => "check the key, the names of the models, the account and its quota",
        _ => "check the account and its token",
    }
}
