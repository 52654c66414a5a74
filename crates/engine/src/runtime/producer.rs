//! The producer: claims jobs for the free slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::holding::May;
use windlass_core::id::Kind;
use windlass_core::job::Start;
use windlass_core::store::{ClaimAnswer, ClaimRequest, Leased};
use windlass_core::transition::Outcome;

use super::allowance::Allowed;
use super::doubt::Doubt;
use super::pool::NOT_IDLE;
use super::standby::{Became, Handed};
use super::{Backoff, Engine, Pool, Until, executor};
use crate::admission::{Admission, Admit};
use crate::signal::Attempt;
use crate::world::barely_jittered;

/// With fewer free slots than this share of all, a busy worker waits a moment
/// for more, so that short jobs are claimed by the hundred and not one by one.
const CROWDED_SHARE: usize = 4;
/// For how long it waits.
const GATHER_MS: u64 = 1;
/// The shortest wait between two questions that found nothing.
const POLL_MS_MIN: u64 = 50;
/// The wait of whoever is told when there is work.
const TOLD_MS: u64 = 40_000;
/// The wait of whoever need not ask: a day.
const PATIENT_MS: u64 = 86_400_000;
/// How often a claim whose answer was lost is asked again at least.
const ASK_MIN: u32 = 5;
/// For how long, while the worker is to claim and nobody says how long a lease is: as long as one is held.
const ASK_MS: u64 = 30_000;

/// What a claim gave.
pub(super) struct Claimed {
    count: usize,
    asked: usize,
    next_due_in_ms: Option<u64>,
}

impl Claimed {
    /// Whether all that was asked for was given, so that there may be more.
    pub(super) fn is_full(&self) -> bool {
        self.count >= self.asked
    }
}

pub(super) async fn run(engine: Arc<Engine>, pool: Arc<Pool>) {
    let mut poll = Backoff::new(POLL_MS_MIN, engine.settings.poll_ms_max);
    let mut trouble = Backoff::new(100, 5_000);
    let mut busy = false;
    let mut hands = pool.standby.hands().await;
    while let Some(free) = free_slots(&engine, &pool, busy).await {
        let claiming = engine.claiming();
        // Only a claim that was asked with nothing in hand can tell that there is nothing to do,
        // and only until something is held or let go again: what ends may free others.
        let (changes, empty_handed) = (engine.changes(), engine.held_count() == 0);
        let claimed = if engine.is_working() { Some(claim(&engine, &pool, free).await) } else { None };
        let Some(claimed) = claimed else { return };
        let Ok(claimed) = claimed else {
            drop(claiming);
            busy = false;
            pause(&engine, trouble.next_ms(&*engine.world)).await;
            continue;
        };
        trouble.reset();
        busy = claimed.is_full();
        pool.full.store(busy, Ordering::Relaxed);
        if busy {
            pool.full_news.notify_one();
        }
        if claimed.count > 0 {
            poll.reset();
        }
        // A claim that has made so many ready as it may names this very moment: there is more to be had.
        let nothing_due =
            empty_handed && claimed.count == 0 && claimed.asked > 0 && claimed.next_due_in_ms != Some(0);
        let idle = nothing_due && (waits_for_nothing(&engine) || claimed.next_due_in_ms.is_none());
        pool.idle_at.store(if idle { changes } else { NOT_IDLE }, Ordering::SeqCst);
        drop(claiming);
        if busy {
            continue;
        }
        if let Some(handed) = wait(&engine, &pool, &mut poll, claimed.next_due_in_ms, &mut hands).await {
            busy = handed.is_full();
            poll.reset();
        }
    }
}

/// Whether what becomes due later is left for others.
fn waits_for_nothing(engine: &Engine) -> bool {
    engine.settings.until == Until::NothingDue
}

/// Waits for free slots; `None` when the worker is not to claim any more.
async fn free_slots(engine: &Engine, pool: &Pool, busy: bool) -> Option<usize> {
    loop {
        if !engine.is_working() {
            return None;
        }
        // Made before the look: what is given back from there on wakes it.
        let more = engine.allowance.more();
        let free = room(engine, pool);
        if free > 0 && !(busy && is_crowded(pool, free)) {
            return Some(free);
        }
        tokio::select! {
            () = engine.until(|phase| *phase != super::Phase::Working) => return None,
            () = pool.slots.room() => {}
            () = more => {}
            () = engine.world.sleep_ms(GATHER_MS), if free > 0 => return Some(room(engine, pool)),
        }
    }
}

/// Whether so few slots are free that waiting for more is worth while.
pub(super) fn is_crowded(pool: &Pool, free: usize) -> bool {
    free * CROWDED_SHARE < pool.slots.total()
}

/// How many jobs may be claimed: no more than there are free slots, nor so many
/// that ended attempts pile up behind a slow store.
pub(super) fn room(engine: &Engine, pool: &Pool) -> usize {
    room_beside(engine, pool, pool.asked.load(Ordering::SeqCst))
}

/// How many may be claimed when so many are asked for already.
fn room_beside(engine: &Engine, pool: &Pool, asked: usize) -> usize {
    let unsettled = (pool.slots.total() * 2).saturating_sub(pool.held_count());
    let free = pool.slots.free().min(unsettled).saturating_sub(asked).min(engine.settings.claim_max);
    free.min(engine.allowance.left())
}

/// Slots that are spoken for by a claim under way.
struct Spoken {
    pool: Arc<Pool>,
    jobs: usize,
    /// So many jobs may be begun; what the claim does not give goes back.
    allowed: Allowed,
}

impl Spoken {
    /// Speaks for as many as wanted, as far as there is room beside the other claims.
    fn of(engine: &Engine, pool: &Arc<Pool>, wanted: usize) -> Option<Self> {
        let counted = &pool.asked;
        let mut jobs = 0;
        let _ = counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |asked| {
            jobs = wanted.min(room_beside(engine, pool, asked));
            Some(asked + jobs)
        });
        // The pools share what is allowed, so that there may be less of it by now.
        let allowed = engine.allowance.take(jobs);
        counted.fetch_sub(jobs - allowed.jobs(), Ordering::SeqCst);
        (allowed.jobs() > 0).then(|| Self { pool: pool.clone(), jobs: allowed.jobs(), allowed })
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        self.pool.asked.fetch_sub(self.jobs, Ordering::SeqCst);
    }
}

/// Waits for news, for a job that becomes due, or for the time to ask again. Answers what the store has
/// claimed for this worker meanwhile.
async fn wait(
    engine: &Arc<Engine>,
    pool: &Pool,
    poll: &mut Backoff,
    next_due_in_ms: Option<u64>,
    hands: &mut mpsc::Receiver<Handed>,
) -> Option<Claimed> {
    let rested = engine.breakers.next_ms(engine.world.boot_ms());
    let due = [next_due_in_ms, rested].into_iter().flatten().min();
    let poll_ms = poll.next_ms(&*engine.world);
    // Where the store is in the same process and time stands still, nobody needs to ask by chance.
    let poll_ms = match engine.world.runs_in_place() {
        true => PATIENT_MS,
        // Nobody tells that there is nothing left: who ends then has to ask.
        // Nor what a claim gave whose answer was lost.
        false
            if engine.source.capabilities().tells
                && engine.settings.until == Until::Shutdown
                && !pool.doubts.is_any(engine.world.boot_ms()) =>
        {
            poll_ms.max(barely_jittered(&*engine.world, TOLD_MS))
        }
        false => poll_ms,
    };
    let ms = due.map_or(poll_ms, |due| due.min(poll_ms)).max(1);
    pool.standby.enter();
    let handed = tokio::select! {
        biased;
        handed = hands.recv() => handed,
        () = engine.until(|phase| *phase != super::Phase::Working) => None,
        () = pool.work.notified() => None,
        () = engine.world.sleep_ms(ms) => None,
    };
    let handed = match handed {
        Some(handed) => handed,
        // A claim that the store has begun is waited for: it may give leases.
        None if pool.standby.leave() => hands.recv().await?,
        None => return None,
    };
    let Handed { became, _claiming } = handed;
    let claimed = match became {
        Became::Started(claimed) => Some(claimed),
        Became::Failed(question, error) => ask_again(engine, *question, &error).await,
        Became::Nothing => None,
    };
    claimed.filter(|claimed| claimed.count > 0)
}

/// After a claim that the store made by itself and could not answer, the same question is asked again.
async fn ask_again(engine: &Arc<Engine>, mut question: Question, error: &StoreError) -> Option<Claimed> {
    engine.mind(error, "claim");
    question.doubted(engine);
    let answer = ask(engine, &mut question).await.ok()?;
    Some(take(engine, question, answer))
}

/// Waits `ms`, or until the worker is not to claim any more.
async fn pause(engine: &Engine, ms: u64) {
    tokio::select! {
        () = engine.until(|phase| *phase != super::Phase::Working) => {}
        () = engine.world.sleep_ms(ms) => {}
    }
}

/// A claim that is about to be made.
pub(super) struct Question {
    pub(super) request: ClaimRequest,
    /// The one kind that it asks for, to see whether its attempts succeed again.
    trial: Option<Kind>,
    asked: usize,
    /// What becomes of those that it is given beside that: they begin nothing, so that it costs no attempt.
    beside: Outcome,
    /// The leases count from before the question was sent; where it was sent before, from then on.
    asked_ms: u64,
    /// When it is sent this time.
    sent_ms: u64,
    /// It may be carried out by somebody who was not heard of.
    doubt: Option<Doubt>,
    /// Held until what it gave is started.
    spoken: Spoken,
}

impl Question {
    /// A claim for the slots that are spoken for; nothing when no kind may be claimed now.
    fn new(engine: &Engine, spoken: Spoken) -> Option<Self> {
        let sent_ms = engine.world.boot_ms();
        let known = &engine.settings.kinds;
        let trial = engine.breakers.to_try(known, sent_ms);
        let (kinds, asked) = match &trial {
            Some(kind) => (vec![kind.clone()], 1),
            None => (engine.breakers.open(known, sent_ms), spoken.jobs),
        };
        if kinds.is_empty() {
            return None;
        }
        let mut request = ClaimRequest {
            request_id: random_uuid(engine),
            worker: engine.settings.name.clone(),
            queues: spoken.pool.queues.clone(),
            kinds: Some(kinds),
            limit: u32::try_from(asked).unwrap_or(u32::MAX),
            lease_ms: engine.settings.lease_ms,
        };
        let doubt = spoken.pool.doubts.take(|| request.asked(), sent_ms);
        if let Some(doubt) = &doubt {
            request.request_id = doubt.request_id;
        }
        let asked_ms = doubt.as_ref().map_or(sent_ms, |doubt| doubt.asked_ms);
        Some(Self { request, trial, asked, beside: Outcome::Released, asked_ms, sent_ms, doubt, spoken })
    }

    /// Its answer was lost.
    fn doubted(&mut self, engine: &Engine) {
        let Self { request, asked_ms, doubt, .. } = self;
        let now_ms = engine.world.boot_ms();
        *doubt = Some(Doubt::new(request.request_id, request.asked(), *asked_ms, now_ms));
    }

    /// Nobody answers it: what somebody may still carry out is asked for by the next.
    fn given_up(&mut self) {
        if let Some(doubt) = self.doubt.take() {
            self.spoken.pool.doubts.keep(doubt);
        }
    }

    /// It gave nothing: so nothing was carried out before it was sent.
    fn gave_nothing(&mut self) {
        if let Some(doubt) = &mut self.doubt {
            doubt.asked_ms = self.sent_ms;
        }
        self.given_up();
    }

    /// A claim for the store to make by itself, of `idle_max` jobs at most when none is in hand.
    pub(super) fn offered(engine: &Engine, pool: &Arc<Pool>, idle_max: usize) -> Option<Self> {
        let most = if pool.held_count() == 0 { idle_max } else { usize::MAX };
        Self::new(engine, Spoken::of(engine, pool, most)?)
    }
}

/// Claims, and starts what it got.
pub(super) async fn claim(
    engine: &Arc<Engine>,
    pool: &Arc<Pool>,
    free: usize,
) -> Result<Claimed, StoreError> {
    let (free, one_of) = match admit(engine).await {
        Admit::All => (free, None),
        Admit::AtMost(most) => (free.min(most.max(1)), None),
        Admit::OneOf(of) => (1, Some(of.max(1))),
        Admit::Nothing { again_in } => {
            let again_ms = u64::try_from(again_in.as_millis()).unwrap_or(u64::MAX);
            return Ok(Claimed { count: 0, asked: 1, next_due_in_ms: Some(again_ms.max(1)) });
        }
    };
    let Some(spoken) = Spoken::of(engine, pool, free) else {
        // Somebody else claims for these slots.
        return Ok(Claimed { count: 0, asked: 0, next_due_in_ms: None });
    };
    let Some(mut question) = Question::new(engine, spoken) else {
        let next_due_in_ms = engine.breakers.next_ms(engine.world.boot_ms());
        return Ok(Claimed { count: 0, asked: 1, next_due_in_ms });
    };
    if let Some(of) = one_of {
        (question.request.limit, question.beside) = (of, Outcome::Parked { until: Start::Now });
    }
    let mut answer = ask(engine, &mut question).await?;
    if let Some(admission) = &engine.admission {
        let begins =
            if one_of.is_some() { first(&**admission, &mut answer.leases) } else { answer.leases.len() };
        admission.claimed(&answer.leases[..begins]).await;
    }
    Ok(take(engine, question, answer))
}

async fn admit(engine: &Engine) -> Admit {
    match &engine.admission {
        Some(admission) => admission.admit().await,
        None => Admit::All,
    }
}

/// Puts the one that is chosen before the others, which are given back. Answers how many begin.
fn first(admission: &dyn Admission, leases: &mut [Leased]) -> usize {
    if leases.len() > 1 {
        let chosen = admission.choose(leases).min(leases.len() - 1);
        leases[..=chosen].rotate_right(1);
    }
    leases.len().min(1)
}

/// Starts what a claim gave.
pub(super) fn take(engine: &Arc<Engine>, mut question: Question, answer: ClaimAnswer) -> Claimed {
    let ClaimAnswer { leases, next_due_in_ms, instance } = answer;
    if leases.is_empty() {
        question.gave_nothing();
    }
    let Question { request: _, trial, asked, beside, asked_ms, sent_ms: _, doubt: _, mut spoken } = question;
    engine.epoch.hear(instance);
    let count = leases.len();
    spoken.allowed.used(count);
    if let Some(kind) = trial.filter(|_| count > 0) {
        engine.breakers.trying(&kind);
    }
    engine.counts.claimed.fetch_add(count as u64, Ordering::Relaxed);
    for (at, leased) in leases.into_iter().enumerate() {
        // A question that was asked before may have asked for more than there is room for by now.
        start(engine, &spoken.pool, leased, asked_ms, (at >= asked).then(|| beside.clone()));
    }
    drop(spoken);
    Claimed { count, asked, next_due_in_ms }
}

/// Asks for leases. When the answer is lost, the same question gets the same
/// leases, so it is asked again until they must have run out.
async fn ask(engine: &Engine, question: &mut Question) -> Result<ClaimAnswer, StoreError> {
    let mut trouble = Backoff::new(50, 500);
    let asked_until_ms = engine.world.boot_ms() + engine.settings.lease_ms.map_or(ASK_MS, u64::from);
    let mut tries = 0;
    loop {
        tries += 1;
        match engine.source.claim(question.request.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                engine.mind(&error, "claim");
                let long_enough = !engine.is_working() || engine.world.boot_ms() >= asked_until_ms;
                if !error.is_transient() {
                    if let Some(admission) = &engine.admission {
                        admission.unclaimed(&error).await;
                    }
                    return Err(error);
                }
                question.doubted(engine);
                if tries >= ASK_MIN && long_enough {
                    question.given_up();
                    return Err(error);
                }
                engine.world.sleep_ms(trouble.next_ms(&*engine.world)).await;
            }
        }
    }
}

fn random_uuid(engine: &Engine) -> Uuid {
    let (high, low) = (engine.world.chance(), engine.world.chance());
    Uuid::from_u64_pair(high, low)
}

/// Starts an attempt, unless it is to end at once; gives it back when the worker is shutting down.
fn start(engine: &Arc<Engine>, pool: &Arc<Pool>, leased: Leased, asked_ms: u64, ended: Option<Outcome>) {
    let lease_ms = leased.job.lease().map_or(0, |lease| u64::from(lease.lease_ms));
    let timeout_ms = leased.job.spec.timeout_ms;
    let now_ms = engine.world.boot_ms();
    let attempt = Arc::new(Attempt::new(leased.lease_ref(), lease_ms, timeout_ms, asked_ms, now_ms));
    // The store has taken the job back and given it to us again before it said that our first lease is lost.
    if let Some(before) = pool.hold(attempt.clone()).filter(|before| !before.is_finished()) {
        engine.lost(&before);
    }
    engine.counts.changes.fetch_add(1, Ordering::SeqCst);
    engine.news.held.notify_waiters();
    if let Some(outcome) = ended {
        engine.finish(&attempt, Some(outcome));
    } else if !engine.is_working() {
        engine.finish(&attempt, Some(Outcome::Released));
    } else if attempt.may(now_ms) != May::Begin {
        // The answer came so late that another may have the job, or soon will.
        tracing::warn!(job_id = %attempt.lease.job_id, fence = attempt.lease.fence, "a lease came too late to begin; giving it back");
        engine.finish(&attempt, Some(Outcome::Released));
    } else {
        executor::start(engine.clone(), pool, leased, attempt);
    }
}
