//! The laws. Each looks at one move: the world before, what happened, the
//! world after; and at what it remembers of all moves before.

use std::collections::BTreeMap;

use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::lease;
use windlass_core::state::State;
use windlass_core::store::{LeaseRef, Written};
use windlass_core::time::Time;

use crate::server::Answer;
use crate::world::{ATTEMPTS_MAX, Action, CRASHES_MAX, Message, WAIT_MS, World};

/// What the laws remember of a job, found from messages alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    jobs: BTreeMap<JobId, Memory>,
    /// When the store was last thawed.
    thawed_at: Option<Time>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Memory {
    /// The newest fence that was ever given.
    fence: u64,
    /// The lease that is surely held, and until when.
    held: Option<(u64, Time)>,
    /// The store froze before two thirds of that lease were over: its holder had no time to renew.
    cut_off: bool,
    /// The steps that were answered as stored.
    steps: usize,
    /// The newest fence that an effect was accepted with.
    effect: u64,
}

impl Ghost {
    /// The newest fence that an effect of this job was accepted with.
    pub fn effect(&self, id: JobId) -> u64 {
        self.jobs.get(&id).map_or(0, |memory| memory.effect)
    }
}

/// One move, as the laws see it.
pub struct Move<'a> {
    pub before: &'a World,
    pub action: Action,
    pub answer: Answer,
    pub after: &'a World,
}

type Law = fn(&Move<'_>) -> Result<(), String>;

/// All laws that look at a move, each by its number.
const LAWS: [(&str, Law); 15] = [
    ("I4 a final state stays", i4_final),
    ("I5 fences rise", i5_fences),
    ("I6 a stale write changes nothing", i6_fence),
    ("I7 one lease at a time", i7_one_lease),
    ("I8 attempts are counted", i8_attempts),
    ("I9 a key runs once", i9_key),
    ("I10 a limit holds", i10_limit),
    ("I11 a lease is taken back when it has run out, in two looks, and not before", i11_expiry),
    ("I12 a canceled job starts no more", i12_cancel),
    ("I14 steps that were answered are there", i14_steps),
    ("I15 nothing starts early", i15_not_early),
    ("I18 a late write counts until the job was taken back", i18_late),
    ("I20 effects follow the fence", i20_effects),
    ("I21 an outage is no crash", i21_outage),
    ("I22 one attempt at work", i22_at_work),
];

/// The first law that a move breaks.
pub fn broken(of: &Move<'_>) -> Option<String> {
    LAWS.iter().find_map(|(name, law)| law(of).err().map(|why| format!("{name}: {why}")))
}

/// Writes down what a move told.
pub fn remember(ghost: &mut Ghost, before: &World, action: Action, answer: Answer, after: &World) {
    let now = after.now;
    for job in after.book.jobs() {
        let memory = ghost.jobs.entry(job.id).or_default();
        if let Some(lease) = granted(before, action, after, job) {
            memory.fence = memory.fence.max(lease.fence);
            memory.held = Some((lease.fence, now.plus_ms(lease_ms(after, job.id))));
            memory.cut_off = false;
        }
    }
    match action {
        Action::Deliver { message, .. } => remember_message(ghost, message, answer, after),
        Action::Expire => {
            for (id, memory) in &mut ghost.jobs {
                let runs = after.job(*id).is_some_and(|job| job.lease().is_some());
                memory.held = memory.held.filter(|(_, until)| runs || *until > now);
            }
        }
        Action::Freeze => {
            for memory in ghost.jobs.values_mut() {
                let third_ms = i64::from(after.setting.lease_ms) / 3;
                memory.cut_off |= memory.held.is_some_and(|(_, until)| now < until.plus_ms(-third_ms));
            }
        }
        Action::Thaw => ghost.thawed_at = Some(now),
        _ => {}
    }
}

/// How long the lease of a job lasts.
fn lease_ms(world: &World, id: JobId) -> i64 {
    world.job(id).and_then(Job::lease).map_or(0, |lease| i64::from(lease.lease_ms))
}

fn remember_message(ghost: &mut Ghost, message: Message, answer: Answer, after: &World) {
    if answer != Some(Written::Done) {
        return;
    }
    match message {
        Message::Renew { lease, .. } => {
            let memory = ghost.jobs.entry(lease.job_id).or_default();
            memory.held = Some((lease.fence, after.now.plus_ms(lease_ms(after, lease.job_id))));
            memory.cut_off = false;
        }
        Message::Settle { lease, .. } => {
            let memory = ghost.jobs.entry(lease.job_id).or_default();
            memory.held = memory.held.filter(|(fence, _)| *fence != lease.fence);
        }
        Message::Effect { lease } => {
            let memory = ghost.jobs.entry(lease.job_id).or_default();
            memory.effect = memory.effect.max(lease.fence);
        }
        Message::Step { .. } | Message::Claim { .. } | Message::Grant { .. } | Message::Renewed { .. } => {}
    }
}

/// The steps that were answered are counted from the jobs themselves, once
/// the laws have looked at the move.
pub fn remember_steps(ghost: &mut Ghost, after: &World) {
    for job in after.book.jobs() {
        ghost.jobs.entry(job.id).or_default().steps = job.steps.len();
    }
}

/// The lease that this move gave, if it gave one.
fn granted(before: &World, action: Action, after: &World, job: &Job) -> Option<LeaseRef> {
    if !matches!(action, Action::Deliver { message: Message::Claim { .. }, .. }) {
        return None;
    }
    let running = after.job(job.id)?.lease()?;
    let same = before.job(job.id).and_then(Job::lease).is_some_and(|lease| lease.fence == running.fence);
    let claimed = after.net.iter().any(|message| {
        matches!(message, Message::Grant { lease, .. } if lease.job_id == job.id && lease.fence == running.fence)
    });
    (!same && claimed).then_some(LeaseRef::new(job.id, running.fence))
}

fn pairs<'a>(of: &Move<'a>) -> impl Iterator<Item = (&'a Job, &'a Job)> {
    let (before, after) = (of.before, of.after);
    before.book.jobs().filter_map(move |job| Some((job, after.job(job.id)?)))
}

fn grants<'a>(of: &Move<'a>) -> impl Iterator<Item = (LeaseRef, &'a Job, &'a Job)> {
    let (before, after) = (of.before, of.after);
    let action = of.action;
    pairs(of).filter_map(move |(old, new)| granted(before, action, after, old).map(|lease| (lease, old, new)))
}

fn memory(world: &World, id: JobId) -> Memory {
    world.ghost.jobs.get(&id).cloned().unwrap_or_default()
}

fn law(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Whether commits were lost in this move: what they had done is undone.
fn forgets(of: &Move<'_>) -> bool {
    matches!(of.action, Action::Promote { .. })
}

fn i4_final(of: &Move<'_>) -> Result<(), String> {
    pairs(of).filter(|_| !forgets(of)).try_for_each(|(old, new)| {
        let stays = !old.state.name().is_final() || old.state == new.state;
        law(stays, || format!("{} became {}", old.state.name(), new.state.name()))
    })
}

fn i5_fences(of: &Move<'_>) -> Result<(), String> {
    grants(of).try_for_each(|(lease, ..)| {
        let newest = memory(of.before, lease.job_id).fence;
        law(lease.fence > newest, || format!("fence {} was given after {newest}", lease.fence))
    })
}

fn i6_fence(of: &Move<'_>) -> Result<(), String> {
    let Action::Deliver { message, .. } = of.action else { return Ok(()) };
    let (Message::Renew { lease, .. } | Message::Step { lease, .. } | Message::Settle { lease, .. }) =
        message
    else {
        return Ok(());
    };
    let Some(old) = of.before.job(lease.job_id) else {
        return law(of.answer == Some(Written::Lost), || {
            "a write to a job that is lost was taken".to_owned()
        });
    };
    let current = old.lease_for(lease.fence).is_some();
    let changed = Some(old) != of.after.job(lease.job_id);
    law(current || !changed, || format!("a write with fence {} changed the job", lease.fence))?;
    let refused = of.answer == Some(Written::Lost);
    let repeat =
        matches!(message, Message::Settle { .. }) && old.fence == lease.fence && old.lease().is_none();
    law(current || refused || repeat, || format!("a write with fence {} was not refused", lease.fence))
}

fn i7_one_lease(of: &Move<'_>) -> Result<(), String> {
    // Where a lease may be longer than the pause, who is at work counts (I22).
    if of.after.setting.hears {
        return Ok(());
    }
    grants(of).try_for_each(|(lease, ..)| {
        let held = memory(of.before, lease.job_id).held.filter(|(_, until)| *until > of.before.now);
        law(held.is_none(), || format!("fence {} was given while {held:?} was held", lease.fence))
    })
}

fn i8_attempts(of: &Move<'_>) -> Result<(), String> {
    grants(of).try_for_each(|(_, old, new)| {
        law(new.attempt == old.attempt + 1, || format!("attempt {} after {}", new.attempt, old.attempt))
    })?;
    pairs(of).try_for_each(|(_, new)| {
        law(new.attempt <= ATTEMPTS_MAX, || format!("{} attempts", new.attempt))?;
        law(new.crashes <= CRASHES_MAX, || format!("{} crashes", new.crashes))
    })
}

fn running(world: &World) -> usize {
    world.book.jobs().filter(|job| matches!(job.state, State::Running(_))).count()
}

fn i9_key(of: &Move<'_>) -> Result<(), String> {
    let running = running(of.after);
    law(!of.after.setting.key || running <= 1, || format!("{running} jobs of one key run"))
}

fn i10_limit(of: &Move<'_>) -> Result<(), String> {
    let running = running(of.after);
    let limit = of.after.setting.limit.map_or(usize::MAX, |limit| limit as usize);
    law(running <= limit, || format!("{running} jobs run, and {limit} may"))
}

fn i11_expiry(of: &Move<'_>) -> Result<(), String> {
    pairs(of).try_for_each(|(old, new)| {
        let Some((fence, until)) = memory(of.before, old.id).held else { return Ok(()) };
        let taken =
            matches!(of.action, Action::Expire) && old.lease_for(fence).is_some() && new.lease().is_none();
        law(!taken || until <= of.before.now, || format!("fence {fence} was taken back early"))?;
        let now = of.before.store_now();
        let looked_at = !matches!(of.action, Action::Expire) || new.lease().is_none_or(|l| l.look_at() > now);
        law(looked_at, || format!("fence {fence} was neither marked nor taken back"))
    })
}

fn i18_late(of: &Move<'_>) -> Result<(), String> {
    let Action::Deliver { message, .. } = of.action else { return Ok(()) };
    let (Message::Renew { lease, .. } | Message::Step { lease, .. } | Message::Settle { lease, .. }) =
        message
    else {
        return Ok(());
    };
    let current = of.before.job(lease.job_id).is_some_and(|job| job.lease_for(lease.fence).is_some());
    law(!current || of.answer == Some(Written::Done), || {
        format!("a write with fence {} was refused, and the job is still held with it", lease.fence)
    })
}

/// Whoever had no time to renew before the store froze has a wait's time after it is back.
fn i21_outage(of: &Move<'_>) -> Result<(), String> {
    let settled = matches!(of.action, Action::Deliver { message: Message::Settle { .. }, .. });
    pairs(of).filter(|_| !settled && !forgets(of)).try_for_each(|(old, new)| {
        let Some(lease) = old.lease() else { return Ok(()) };
        let taken = new.lease_for(lease.fence).is_none();
        let back_ms = of.before.ghost.thawed_at.map_or(0, |at| of.before.now.ms_since(at));
        let no_time = memory(of.before, old.id).cut_off && back_ms < WAIT_MS as u64;
        law(!(taken && no_time), || {
            format!("fence {} was taken back {back_ms} ms after an outage", lease.fence)
        })
    })
}

fn i22_at_work(of: &Move<'_>) -> Result<(), String> {
    if !of.after.setting.still {
        return Ok(());
    }
    let (Some(first), Some(second)) = (of.after.at_work(0), of.after.at_work(1)) else { return Ok(()) };
    law(first != second, || "two attempts of one job are at work".to_owned())?;
    law(!of.after.setting.key, || "two attempts of one key are at work".to_owned())?;
    law(of.after.setting.limit != Some(1), || "two attempts are at work where one may be".to_owned())
}

fn i12_cancel(of: &Move<'_>) -> Result<(), String> {
    grants(of).try_for_each(|(lease, ..)| {
        let canceled = of.before.canceled.contains(&lease.job_id);
        law(!canceled, || "a canceled job was given to a worker".to_owned())
    })
}

fn i14_steps(of: &Move<'_>) -> Result<(), String> {
    pairs(of).try_for_each(|(old, new)| {
        let known = memory(of.before, old.id).steps;
        law(new.steps.len() >= known, || format!("{} of {known} steps are left", new.steps.len()))?;
        let kept = new.steps.iter().zip(&old.steps).all(|(new, old)| new == old);
        law(kept, || "a stored step changed".to_owned())
    })
}

fn i15_not_early(of: &Move<'_>) -> Result<(), String> {
    grants(of).try_for_each(|(_, old, _)| {
        let now = of.before.store_now();
        law(old.run_at <= now, || format!("started at {now}, due at {}", old.run_at))
    })
}

/// From here on time passes, leases are taken back, and one healthy worker
/// does what it gets: everything must come to an end.
pub fn i17_not_stuck(world: &World) -> Result<(), String> {
    let unfinished = |book: &windlass_core::book::Book| book.jobs().any(|job| !job.state.name().is_final());
    let mut book = world.book.clone();
    let mut now = world.store_now();
    for round in 0..u128::from(2 * ATTEMPTS_MAX) {
        if !unfinished(&book) {
            return Ok(());
        }
        let lease_ms = i64::from(world.lease_ms(0));
        for ms in [lease_ms, lease::wait_ms(world.lease_ms(0))] {
            now = now.plus_ms(ms);
            book.expire(now);
        }
        let wish = windlass_core::store::ClaimRequest {
            request_id: uuid::Uuid::from_u128(1_000_000 + round),
            worker: crate::world::worker_name(0),
            queues: vec![crate::world::queue()],
            kinds: None,
            limit: 2,
            lease_ms: None,
        };
        let leases = book.claim(&wish, now).map_err(|error| error.to_string())?.leases;
        let done = |leased: &windlass_core::store::Leased| windlass_core::store::Settlement {
            lease: leased.lease_ref(),
            outcome: windlass_core::transition::Outcome::DONE,
        };
        book.settle(&leases.iter().map(done).collect::<Vec<_>>(), now);
    }
    Err("I17 no stuck state: a healthy worker does not bring it to an end".to_owned())
}

fn i20_effects(of: &Move<'_>) -> Result<(), String> {
    let Action::Deliver { message: Message::Effect { lease }, .. } = of.action else { return Ok(()) };
    let newest = memory(of.before, lease.job_id).effect;
    let accepted = of.answer == Some(Written::Done);
    law(!accepted || lease.fence >= newest, || format!("fence {} was accepted after {newest}", lease.fence))
}
