//! The keeper of lanes: heartbeats, claims, an even spread, and letting go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use futures::{FutureExt, StreamExt};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use windlass_app::AppError;

use crate::commit::{Step, move_lanes};
use crate::context::Context;
use crate::event::id_text;
use crate::gone;
use crate::home::code;
use crate::lane::{Lane, LaneId};
use crate::lease::{self, Claimed, Held, Holdings};
use crate::limits;
use crate::listener::{OnResume, applied};
use crate::metrics::add;
use crate::split;
use crate::token::Token;

/// Claims at once.
const CLAIMS_AT_ONCE: usize = 8;
/// How soon is looked again when something was left.
const SOON_MS: u64 = 1_000;
/// How long a lane may take to be let go.
const RELEASE_MS_MAX: u64 = 2_500;
/// How long all of them may, at the end.
const RELEASE_ALL_MS_MAX: u64 = 1_000;

/// Says that we are alive, until it is time to end.
pub(crate) async fn heartbeats(context: Arc<Context>) -> Result<(), AppError> {
    let every = context.work.heartbeat.as_millis() as u64;
    let mut due = context.home.world.boot_ms();
    loop {
        let late = context.home.world.boot_ms().saturating_sub(due);
        context.metrics.heartbeat_late_ms.store(late, Ordering::Relaxed);
        let began = context.home.world.boot_ms();
        match beat(&context).await {
            Ok(()) => add(&context.metrics.heartbeats, 1),
            Err(error) => {
                add(&context.metrics.heartbeats_failed, 1);
                tracing::warn!(code = code(&error), error = %error.kind, "A heartbeat did not arrive");
            }
        }
        due = began + every;
        // After one that failed, soon again: a lease may be saved yet.
        let failed = context.lease_until_boot_ms.load(Ordering::Relaxed)
            < began + context.work.lock.as_millis() as u64;
        let wait = if failed { every.min(SOON_MS) } else { due.saturating_sub(context.home.world.boot_ms()) };
        if !context.pause(wait.max(10)).await {
            return Ok(());
        }
    }
}

pub(crate) async fn beat(context: &Context) -> Result<(), Error> {
    let home = &context.home;
    let began = home.world.boot_ms();
    let lanes = context.registry.all();
    let has_parts = lanes.iter().any(|lane| lane.id.part.is_some());
    lease::register(home, &context.instance, lanes.len(), std::process::id()).await?;
    let ours = lease::heartbeat(home, &context.instance, lanes.len(), has_parts).await?;
    context.lease_until_boot_ms.store(began + context.work.lock.as_millis() as u64, Ordering::Relaxed);
    context.metrics.heartbeat_boot_ms.store(began, Ordering::Relaxed);
    if let Some(ours) = ours {
        for lane in
            lanes.iter().filter(|lane| !ours.contains(&lane.id.text()) && !lane.stop.load(Ordering::Relaxed))
        {
            tracing::warn!(listener = %lane.id.text(), "A lock is not ours any more; nothing more is written for its listener");
            add(&context.metrics.locks_lost, 1);
            lane.lose();
            context.registry.remove(lane);
        }
        context.claim_now.notify_one();
    }
    home.hello().await?;
    Ok(())
}

/// Looks for lanes without an owner, until it is time to end.
pub(crate) async fn claims(context: Arc<Context>) -> Result<(), AppError> {
    loop {
        let wait = match look(&context).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(code = code(&error), error = %error.kind, "The listeners cannot be looked at");
                SOON_MS
            }
        };
        tokio::select! {
            () = context.stop.wait() => return Ok(()),
            () = context.home.world.sleep_ms(wait) => {}
            () = context.claim_now.notified() => {}
        }
    }
}

/// Looks once; answers in how many milliseconds to look again.
pub(crate) async fn look(context: &Arc<Context>) -> Result<u64, Error> {
    let lock_ms = context.work.lock.as_millis() as i64;
    let mut holdings = lease::holdings(&context.home, lock_ms).await?;
    for held in &mut holdings.lanes {
        let ours = held.owner.as_deref() == Some(context.instance.as_str());
        if ours && context.registry.get(&held.lane.text()).is_none() {
            // Its fence has risen under us: it is taken anew, by whoever comes first.
            lease::release(&context.home, &context.instance, &held.lane).await?;
            (held.owner, held.heartbeat) = (None, None);
        }
    }
    refuse(context, &holdings).await?;
    context.listed_boot_ms.store(context.home.world.boot_ms(), Ordering::Relaxed);
    forget_gone(context).await?;
    let open_gaps = context.home.gaps.count_documents(doc! { "state": "open" }).await?;
    context.metrics.open_gaps.store(open_gaps, Ordering::Relaxed);
    release_stopped(context).await?;
    split::retire(&context.home, &holdings, lock_ms).await?;
    let spread = Spread::of(&holdings, &context.instance, context.home.now().timestamp_millis(), lock_ms);
    add(&context.metrics.stale_seen, spread.stale);
    let wanted: Vec<LaneId> = spread.free.iter().take(spread.room).map(|held| held.lane.clone()).collect();
    let left = spread.free.len() - wanted.len();
    let before: BTreeSet<&String> =
        spread.free.iter().take(spread.room).filter_map(|held| held.owner.as_ref()).collect();
    for owner in before {
        context.home.end_sessions_of(owner).await?;
    }
    let claims: Vec<_> = wanted.into_iter().map(|lane| take(context.clone(), lane).boxed()).collect();
    let taken: Vec<Result<bool, Error>> =
        futures::stream::iter(claims).buffer_unordered(CLAIMS_AT_ONCE).collect().await;
    let missed = taken.iter().filter(|taken| !matches!(taken, Ok(true))).count();
    if let Some(Err(error)) = taken.into_iter().find(Result::is_err) {
        tracing::warn!(code = code(&error), error = %error.kind, "A listener could not be taken");
        context.home.end_sessions_of_silent(lock_ms).await?;
    }
    if left == 0 && missed == 0 && spread.surplus > 0 {
        give(context, spread.surplus).await?;
    }
    let wait = spread.next_ms.min(context.work.claim.as_millis() as u64);
    Ok(if left + missed > 0 { wait.min(SOON_MS) } else { wait.max(50) })
}

/// Drops what is left of listeners that are gone, no more often than is looked when nothing happens.
async fn forget_gone(context: &Context) -> Result<(), Error> {
    let now = context.home.world.boot_ms();
    let every = context.work.claim.as_millis() as u64;
    if now.saturating_sub(context.forgot_boot_ms.load(Ordering::Relaxed)) >= every {
        context.forgot_boot_ms.store(now, Ordering::Relaxed);
        gone::forget(&context.home, context.work.lock.as_millis() as i64).await?;
    }
    Ok(())
}

/// Puts listeners down that must not run, whoever wrote them so, and remembers at their positions that they did not:
/// what comes while a listener is refused is nobody's.
async fn refuse(context: &Context, holdings: &Holdings) -> Result<(), Error> {
    let Holdings { refused, refused_keys: keys, .. } = holdings;
    let before = {
        let mut known = context.refused.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, refused.clone())
    };
    for lane in context.registry.all() {
        // One that cannot be understood waits where it is for the edit that mends it.
        let is_read = lane.seen().listener.is_some();
        if is_read && refused.contains_key(&id_text(&lane.id.listener)) {
            lane.stop.store(true, Ordering::Relaxed);
        }
    }
    for (id, why) in refused.iter().filter(|(id, why)| before.get(*id) != Some(*why)) {
        tracing::error!(listener = id, why, "A listener is refused, and does not run");
    }
    if !refused.is_empty() {
        let new = doc! { "listener": { "$in": keys }, "refused": { "$exists": false } };
        context.home.positions.update_many(new, doc! { "$set": { "refused": true } }).await?;
    }
    Ok(())
}

/// Who should have how many.
struct Spread<'a> {
    free: Vec<&'a Held>,
    /// How many this instance may take.
    room: usize,
    /// How many it should give.
    surplus: usize,
    stale: usize,
    /// When the next lease runs out that is not renewed.
    next_ms: u64,
}

impl<'a> Spread<'a> {
    fn of(holdings: &'a Holdings, instance: &str, now_ms: i64, lock_ms: i64) -> Self {
        let mut counts: BTreeMap<&str, usize> =
            holdings.instances.iter().map(|name| (name.as_str(), 0)).collect();
        counts.entry(instance).or_default();
        let (mut free, mut stale, mut next_ms) = (Vec::new(), 0, u64::MAX);
        for held in &holdings.lanes {
            let left = held.heartbeat.map_or(0, |beat| beat.timestamp_millis() + lock_ms - now_ms);
            match &held.owner {
                Some(owner) if owner == instance || left > 0 => {
                    *counts.entry(owner).or_default() += 1;
                    if owner != instance {
                        next_ms = next_ms.min(left as u64 + 100);
                    }
                }
                Some(_) => {
                    stale += 1;
                    free.push(held);
                }
                None => free.push(held),
            }
        }
        let share = holdings.lanes.len().div_ceil(counts.len());
        let mine = counts.get(instance).copied().unwrap_or(0);
        let least = counts.values().copied().min().unwrap_or(0);
        let surplus = if mine > least + 1 { (mine - least) / 2 } else { 0 };
        Self { free, room: share.saturating_sub(mine), surplus, stale, next_ms }
    }
}

/// Takes a lane, and has it caught up. False when somebody else was faster.
async fn take(context: Arc<Context>, lane: LaneId) -> Result<bool, Error> {
    let home = &context.home;
    if context.registry.get(&lane.text()).is_some() {
        // It is being let go.
        return Ok(false);
    }
    let lock_ms = context.work.lock.as_millis() as i64;
    // Where nobody has been before, it begins where the shared stream is before the listener is read: no edit is missed.
    let shared = context.shared.borrow().clone();
    let Some(claimed) = lease::claim(home, &context.instance, &lane, lock_ms).await? else {
        return Ok(false);
    };
    add(&context.metrics.locks_taken, 1);
    if claimed.stolen {
        add(&context.metrics.locks_stolen, 1);
    }
    tracing::info!(listener = %lane.text(), fence = claimed.fence, stolen = claimed.stolen, "A listener is ours");
    let lane = begin(&context, lane, claimed, shared);
    if let Some(listener) = lane.listener.clone().filter(|listener| listener.concurrency.is_some())
        && let Err(trouble) = limits::set_budget(home, &listener, true).await
    {
        // It is let go, and taken another time.
        lane.handle.stop.store(true, Ordering::Relaxed);
        return Err(Error::custom(trouble.why()));
    }
    if lane.definition_changed {
        // Where a new one begins is known before anything is heard for it.
        let step = Step {
            handle: lane.handle.clone(),
            token: lane.jobs_token.clone(),
            run_at_max_ms: lane.run_at_max_ms,
            applied: Some(applied(&lane.document)),
        };
        if let Err(error) = move_lanes(home, &[step], None).await {
            // It is let go, and taken another time.
            lane.handle.stop.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
    let _ = context.behind.send(lane);
    Ok(true)
}

fn begin(context: &Context, id: LaneId, claimed: Claimed, shared: Option<Token>) -> Lane {
    let Claimed { fence, position, document, stolen: _ } = claimed;
    // What came while it was refused is nobody's.
    let was_refused = position.contains_key("refused");
    let known = |name: &str| position.get_str(name).ok().filter(|_| !was_refused);
    let token = |name: &str| known(name).and_then(Token::of_text);
    let jobs_token = token("token")
        .or(shared)
        .unwrap_or_else(|| Token::before(mongodb::bson::Timestamp { time: 1, increment: 1 }));
    let status_token =
        token("statusToken").map_or_else(|| jobs_token.clone(), |status| status.min(jobs_token.clone()));
    let handle = context.registry.add(id, fence, status_token.clone(), context.home.world.boot_ms());
    let is_new = !position.contains_key("token") || was_refused;
    let known = position.get_document("applied").ok().filter(|_| !was_refused);
    let mut definition = known.cloned().unwrap_or_else(|| document.clone());
    let resumed = is_paused(&definition) && !is_paused(&document);
    let catches_up = crate::listener::Listener::read(&document)
        .is_ok_and(|listener| listener.on_resume == OnResume::CatchUp);
    if resumed && catches_up {
        definition.insert("isActive", true);
    }
    if definition.get("_id").is_none() {
        definition.insert("_id", document.get("_id").cloned().unwrap_or(Bson::Null));
    }
    let run_at_max_ms = position.get_datetime("runAtMax").map_or(0, |time| time.timestamp_millis());
    let mut lane = Lane::new(handle, definition, status_token, jobs_token, run_at_max_ms);
    lane.inherited = split::inherited(&position);
    // What is stored of a new one is nothing yet.
    lane.definition_changed = is_new || resumed;
    lane
}

fn is_paused(definition: &Document) -> bool {
    definition.get_bool("isActive").is_ok_and(|is_active| !is_active)
}

/// Lets lanes go that nobody reads for any more: whoever did has put them down, or has panicked.
async fn release_stopped(context: &Context) -> Result<(), Error> {
    for lane in context.registry.all() {
        if lane.gone.load(Ordering::Relaxed) {
            lease::release(&context.home, &context.instance, &lane.id).await?;
            add(&context.metrics.locks_released, 1);
            context.registry.remove(&lane);
        }
    }
    Ok(())
}

/// Gives lanes to instances that have fewer.
async fn give(context: &Context, many: usize) -> Result<(), Error> {
    let lanes: Vec<_> = context.registry.all().into_iter().rev().take(many).collect();
    tracing::info!(lanes = lanes.len(), "Another instance has fewer listeners; some are given to it");
    lanes.iter().for_each(|lane| lane.stop.store(true, Ordering::Relaxed));
    let until = context.home.world.boot_ms() + RELEASE_MS_MAX;
    while lanes.iter().any(|lane| !lane.gone.load(Ordering::Relaxed)) && context.home.world.boot_ms() < until
    {
        context.home.world.sleep_ms(20).await;
    }
    release_stopped(context).await
}

/// Lets everything go, once nobody reads any more. Where the server is away, nobody is kept waiting.
pub(crate) async fn release_all(context: &Context) {
    let released = tokio::select! {
        released = lease::release_all(&context.home, &context.instance) => released.map_err(|error| error.kind.to_string()),
        () = context.home.world.sleep_ms(RELEASE_ALL_MS_MAX) => Err("the server does not answer".to_owned()),
    };
    match released {
        Ok(locks) => tracing::info!(locks, "All locks are released"),
        Err(error) => tracing::warn!(error, "Locks cannot be released; they run out by themselves"),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;

    fn holdings(owners: &[Option<&str>], instances: &[&str], heartbeat_ms: i64) -> Holdings {
        let lane = |n: usize| LaneId { listener: Bson::Int32(n as i32), part: None };
        let held = |(n, owner): (usize, &Option<&str>)| Held {
            lane: lane(n),
            owner: owner.map(str::to_owned),
            heartbeat: owner.map(|_| DateTime::from_millis(heartbeat_ms)),
        };
        Holdings {
            lanes: owners.iter().enumerate().map(held).collect(),
            documents: BTreeMap::new(),
            instances: instances.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(),
            refused: BTreeMap::new(),
            refused_keys: Vec::new(),
        }
    }

    /// Whoever read for a lane has panicked: the lane is let go at the next look, and not kept unread.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lane_that_nobody_reads_for_is_released() {
        let place = crate::testing::Place::new().await;
        let context = place.context("a").await;
        let listener = doc! { "_id": "l", "collection": "people", "jobName": "j", "isActive": true };
        context.home.listeners.insert_one(&listener).await.unwrap();
        let id = LaneId { listener: Bson::String("l".to_owned()), part: None };
        let claimed = lease::claim(&context.home, &context.instance, &id, 30_000).await.unwrap().unwrap();
        let lane = begin(&context, id, claimed, None);
        let owner = async || {
            let listener = context.home.listeners.find_one(doc! { "_id": "l" }).await.unwrap().unwrap();
            listener.contains_key("lockInfo")
        };
        release_stopped(&context).await.unwrap();
        assert!(owner().await && context.registry.len() == 1, "somebody reads for it");
        drop(lane);
        release_stopped(&context).await.unwrap();
        assert!(!owner().await && context.registry.len() == 0);
    }

    #[test]
    fn t26_lanes_are_spread_evenly() {
        let all = holdings(&[Some("a"); 20], &["a", "b"], 1_000);
        let (a, b) = (Spread::of(&all, "a", 1_000, 30_000), Spread::of(&all, "b", 1_000, 30_000));
        assert_eq!((a.surplus, a.room, b.room), (10, 0, 10));
        let even = holdings(&[Some("a"), Some("a"), Some("b")], &["a", "b"], 1_000);
        assert_eq!(Spread::of(&even, "a", 1_000, 30_000).surplus, 0, "within one of even nothing moves");
        let third = holdings(&[Some("a"), Some("a"), Some("b"), Some("b")], &["a", "b", "c"], 1_000);
        assert_eq!(Spread::of(&third, "a", 1_000, 30_000).surplus, 1);
    }

    #[test]
    fn b03_only_what_was_not_heard_of_for_a_lease_is_free() {
        let all = holdings(&[Some("a"), None], &["a", "b"], 1_000);
        let b = Spread::of(&all, "b", 30_999, 30_000);
        assert_eq!((b.free.len(), b.stale, b.next_ms), (1, 0, 101));
        let b = Spread::of(&all, "b", 31_001, 30_000);
        assert_eq!((b.free.len(), b.stale), (2, 1));
    }
}
