//! The server: the real book, or the book with a flaw; and the flaws of workers.

use windlass_core::book::{Book, Document};
use windlass_core::epoch::PAUSE_MS_MAX;
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::state::{Lease, State};
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement, StepWrite, Written};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;

use crate::world::{Action, Comes, End, Message, WAIT_MS, Worker, World, kind, new_job, queue, worker_name};

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// Whatever fence is taken for the current one.
    NoFence,
    /// Who holds the job decides, not which lease.
    OwnerInsteadOfFence,
    /// What was seen to have run out is queued again later, whatever happened since.
    BlindRescue,
    /// Places are counted up and down, and counted down by every end that is told.
    DoubleRelease,
    /// A job that is queued again begins its fences anew.
    FenceReset,
    /// A renewal is taken whatever the job is.
    BlindHeartbeat,
    /// What the job acts on does not look at the fence.
    UnfencedEffect,
    /// A cancel is taken whatever the job is.
    BlindCancel,
    /// Nobody looks whether the key is free.
    KeyCheckSkipped,
    /// A write is refused from the end of the lease on, whether or not the job was taken back.
    StrictLease,
    /// What has run out is taken back at the first look.
    OneLook,
    /// The second look does not wait.
    NoWait,
    /// However old a mark is, it counts.
    OldMarkCounts,
    /// A renewal leaves the mark.
    RenewalKeepsMark,
    /// A claim takes back by itself what has run out.
    ClaimTakesBack,
    /// A worker goes on, whatever its clock says.
    NeverStill,
    /// A worker starts an attempt without a look at its lease: it looks at the next tick.
    StartsWithoutALook,
    /// A worker that hears that its lease was renewed goes on without a look at it: it looks at the next tick.
    GoesOnWithoutALook,
    /// A worker stands still at the end of its lease, and not before.
    NoMargin,
    /// The wait between two looks is a third of the lease, however long that is.
    WaitNotCapped,
    /// A worker counts its lease from when it got it, not from when it asked.
    CountsFromTheAnswer,
    /// Nobody looks whether the history was cut.
    EpochNotCompared,
    /// Renewals, steps and settlements do not look whether it was.
    EpochNotComparedInWrites,
    /// Nor does whoever takes back.
    EpochNotComparedInExpire,
    /// A new epoch gives fences from where the old one was.
    FloorNotLifted,
    /// A new epoch renews no lease.
    EpochDoesNotRenew,
    /// Nothing is held back, whatever was lost.
    NoPause,
    /// The pause is as long as the queue's lease, whatever was claimed.
    LongLeasesForgotten,
    /// What is accepted in the pause does not wait, whoever else may run.
    WhatComesDoesNotWait,
    /// A worker that stood still goes on with its first renewal.
    GoesOnAtOnce,
    /// A worker that hears of another instance renews what it holds when that is due, and not at once.
    AnotherInstanceRenewsNothing,
}

/// What a flawed server remembers beside the book.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    scanned: Vec<JobId>,
    used: u32,
}

/// The beginning, as a server with this flaw sees it.
pub fn begin(setting: crate::world::Setting, flaw: Flaw) -> World {
    let limit = setting.limit.filter(|_| flaw != Flaw::DoubleRelease);
    World::new(setting, flaw != Flaw::KeyCheckSkipped, limit)
}

/// The answer to a write, where the laws want to see it.
pub type Answer = Option<Written>;

/// Begins a new epoch if the history was cut and this is a call of the store: the first one finds it.
pub fn notice(world: &mut World, action: Action, flaw: Flaw) {
    let looks = match action {
        Action::Deliver { message: Message::Claim { .. }, .. } | Action::Enqueue { .. } => true,
        Action::Deliver {
            message: Message::Grant { .. } | Message::Renewed { .. } | Message::Effect { .. },
            ..
        } => false,
        Action::Deliver { .. } => flaw != Flaw::EpochNotComparedInWrites,
        Action::Expire => flaw != Flaw::EpochNotComparedInExpire,
        Action::Hear { .. } => true,
        _ => false,
    };
    if !looks || !world.cut || flaw == Flaw::EpochNotCompared {
        return;
    }
    world.cut = false;
    let leases: Vec<(JobId, State)> = world.book.jobs().map(|job| (job.id, job.state.clone())).collect();
    if flaw == Flaw::LongLeasesForgotten {
        edit(&mut world.book, |document| drop(document.remove("long_leases")));
    }
    let lossy = world.setting.lost_max > 0 && flaw != Flaw::NoPause;
    world.book.turn(uuid::Uuid::from_u128(7), 0, lossy, world.store_now());
    if flaw == Flaw::FloorNotLifted {
        edit(&mut world.book, |document| document["epoch"]["floor"] = 0.into());
    }
    if flaw == Flaw::EpochDoesNotRenew {
        for (id, state) in leases {
            force(&mut world.book, id, |job| job.state = state);
        }
    }
}

/// Lets something happen.
pub fn act(world: &mut World, action: Action, flaw: Flaw) -> Answer {
    let before = (world.promotions > 0 && world.setting.lost_max > 0).then(|| world.book.clone());
    let answer = happen(world, action, flaw);
    world.book.keep_events(0);
    if let Some(before) = before.filter(|before| world.promotions > 0 && before.jobs().ne(world.book.jobs()))
    {
        world.log.insert(0, before);
        world.log.truncate(world.setting.lost_max);
    }
    answer
}

fn happen(world: &mut World, action: Action, flaw: Flaw) -> Answer {
    match action {
        Action::Send { worker, message, then } => {
            let first = world.workers[worker] == Worker::Idle;
            world.workers[worker] = then;
            world.asked[worker] += u8::from(matches!(then, Worker::Asking(n) if n == world.asked[worker]));
            if first && world.setting.still {
                world.sent[worker] = world.now;
                world.still_until[worker] = Time::MIN;
            }
            put(world, message)
        }
        Action::GiveUp { worker } => {
            world.workers[worker] = Worker::Idle;
            None
        }
        Action::Crash { worker } => {
            world.workers[worker] = Worker::Idle;
            world.crashes -= 1;
            None
        }
        Action::Hear { worker } => {
            crate::hearing::hear_instance(world, worker, flaw);
            None
        }
        Action::Look { worker } => {
            look(world, worker, flaw);
            None
        }
        Action::Lose { message } => {
            world.net.retain(|other| *other != message);
            None
        }
        Action::Deliver { message, kept } => {
            if kept {
                world.copies -= 1;
            } else {
                world.net.retain(|other| *other != message);
            }
            deliver(world, message, flaw)
        }
        Action::Tick => {
            world.now = world.now.plus_ms(world.setting.tick_ms as i64);
            world.ticks -= 1;
            world.frozen = world.frozen.map(|ticks| ticks.saturating_add(1).min(9));
            if flaw == Flaw::NeverStill {
                world.sent = [world.now; 2];
            }
            world.unlooked = [false; 2];
            let holds = world.workers.map(|worker| matches!(worker, Worker::Holding(_)));
            world.look_due = holds.map(|holds| holds && world.setting.looks);
            world.hear_due = holds.map(|holds| holds && world.setting.hears);
            world.expire_due = world.setting.silent && world.has_run_out();
            None
        }
        Action::Freeze => {
            world.freezes -= 1;
            world.frozen = Some(0);
            None
        }
        Action::Thaw => {
            world.frozen = None;
            None
        }
        Action::Promote { lost } => promote(world, lost),
        Action::Enqueue { job } => {
            let new = new_job(job, &world.setting, flaw != Flaw::KeyCheckSkipped);
            world.book.enqueue(vec![new], world.store_now()).expect("a job");
            None
        }
        Action::Scan => scan(world, flaw),
        Action::Expire => expire(world, flaw),
        Action::Cancel { job } => cancel(world, job, flaw),
    }
}

/// A standby takes over, with its own clock; it has not heard of so many commits.
fn promote(world: &mut World, lost: usize) -> Answer {
    world.promotions -= 1;
    if lost > 0 {
        world.book = world.log[lost - 1].clone();
    }
    world.log.clear();
    world.cut = true;
    world.ahead_ms += world.setting.ahead_ms;
    world.frozen = None;
    None
}

fn put(world: &mut World, message: Message) -> Answer {
    if !world.net.contains(&message) {
        world.net.push(message);
        world.net.sort_unstable();
    }
    None
}

fn deliver(world: &mut World, message: Message, flaw: Flaw) -> Answer {
    match message {
        Message::Claim { worker, request } => claim(world, worker, request, flaw),
        Message::Grant { worker, request, lease } => {
            if world.workers[worker] == Worker::Asking(request) {
                world.workers[worker] = Worker::Holding(lease);
                world.unlooked[worker] = flaw == Flaw::StartsWithoutALook;
                if flaw == Flaw::CountsFromTheAnswer {
                    world.sent[worker] = world.now;
                }
                look(world, worker, flaw);
            }
            None
        }
        Message::Renewed { worker, lease, sent, still_until } => {
            hear(world, worker, lease, (sent, still_until), flaw);
            None
        }
        Message::Renew { worker, lease, sent } => {
            let lease = seen(world, worker, lease, flaw);
            if flaw == Flaw::BlindHeartbeat {
                revive(world, worker, lease);
            }
            let marked_at = world.job(lease.job_id).and_then(Job::lease).and_then(|held| held.marked_at);
            let answer = world.book.renew(&[lease], world.store_now());
            let renewed = !answer.renewed.is_empty();
            let still_until = answer.still.first().map_or(Time::MIN, |(_, ms)| world.now.plus_ms(*ms as i64));
            if renewed && world.setting.late_answers {
                put(world, Message::Renewed { worker, lease, sent, still_until });
            } else if renewed {
                hear(world, worker, lease, (sent, still_until), flaw);
            }
            if renewed && flaw == Flaw::RenewalKeepsMark {
                mark(&mut world.book, lease.job_id, marked_at);
            }
            Some(if renewed { Written::Done } else { Written::Lost })
        }
        Message::Step { worker, lease } => {
            let lease = seen(world, worker, lease, flaw);
            let name = format!("step of {}", lease.fence).parse().expect("a name");
            let step = StepWrite { lease, name, output: Json::null() };
            world.book.store_steps(&[step], world.store_now()).first().copied()
        }
        Message::Settle { worker, lease, end } => {
            let lease = seen(world, worker, lease, flaw);
            world.memory.used = world.memory.used.saturating_sub(1);
            let outcome = match end {
                End::Done => Outcome::DONE,
                End::Retry => Outcome::Retry { error: String::new(), when: None },
                End::Release => Outcome::Released,
            };
            world.book.settle(&[Settlement { lease, outcome }], world.store_now()).first().copied()
        }
        Message::Effect { lease } => {
            let newest = world.ghost.effect(lease.job_id);
            let taken = flaw == Flaw::UnfencedEffect || lease.fence >= newest;
            Some(if taken { Written::Done } else { Written::Lost })
        }
    }
}

/// A worker hears that its renewal of `sent` was taken, and until when it has to stand still if it does.
pub fn hear(
    world: &mut World,
    worker: usize,
    lease: LeaseRef,
    (sent, still_until): (Time, Time),
    flaw: Flaw,
) {
    if world.workers[worker] != Worker::Holding(lease) {
        return;
    }
    if world.at_work(worker).is_none() && flaw != Flaw::GoesOnAtOnce {
        world.still_until[worker] = world.still_until[worker].max(still_until);
    }
    world.sent[worker] = world.sent[worker].max(sent);
    world.unlooked[worker] |= flaw == Flaw::GoesOnWithoutALook;
    look(world, worker, flaw);
}

/// A worker looks at its lease: before it starts, before it goes on, and once in a tick.
fn look(world: &mut World, worker: usize, flaw: Flaw) {
    if world.setting.looks {
        let end_ms = world.sent[worker].plus_ms(i64::from(world.lease_ms(worker)));
        let over = world.now >= end_ms || world.now < world.still_until[worker];
        world.stands[worker] = if flaw == Flaw::NoMargin { over } else { world.must_stand(worker) };
        world.look_due[worker] = false;
    }
}

/// The lease as the server takes it.
fn seen(world: &World, worker: usize, lease: LeaseRef, flaw: Flaw) -> LeaseRef {
    let Some(job) = world.job(lease.job_id) else { return lease };
    let own = job.lease().is_some_and(|held| held.worker == worker_name(worker));
    match flaw {
        Flaw::NoFence => LeaseRef { fence: job.fence, ..lease },
        Flaw::OwnerInsteadOfFence if own => LeaseRef { fence: job.fence, ..lease },
        Flaw::StrictLease if job.lease().is_some_and(|held| held.expires_at <= world.now) => {
            LeaseRef { fence: 0, ..lease }
        }
        _ => lease,
    }
}

fn claim(world: &mut World, worker: usize, request: u8, flaw: Flaw) -> Answer {
    if flaw == Flaw::DoubleRelease && world.setting.limit.is_some_and(|limit| world.memory.used >= limit) {
        return None;
    }
    let mut wish = ClaimRequest {
        request_id: uuid::Uuid::from_u128(worker as u128 * 1_000 + u128::from(request) + 1),
        worker: worker_name(worker),
        queues: vec![queue()],
        kinds: None,
        limit: 1,
        lease_ms: world.setting.longer_ms.filter(|_| worker == 0),
    };
    if flaw == Flaw::ClaimTakesBack {
        one_look(world);
    }
    let fences: Vec<u64> = world.book.jobs().map(|job| job.fence).collect();
    let now = world.store_now();
    if let Some(late) = late(world).filter(|_| flaw == Flaw::WhatComesDoesNotWait) {
        wish.kinds = Some(vec![kind(late)]);
        wish.request_id = uuid::Uuid::from_u128(wish.request_id.as_u128() + 500);
        world.book.set_pause_max(0);
    }
    let answer = world.book.claim(&wish, now).expect("a claim that makes sense");
    world.book.set_pause_max(PAUSE_MS_MAX);
    let lease = answer.leases.first()?.lease_ref();
    let new = world.book.jobs().map(|job| job.fence).ne(fences);
    world.memory.used += u32::from(new && flaw == Flaw::DoubleRelease);
    put(world, Message::Grant { worker, request, lease })
}

/// The job that comes later, if it has come in this epoch.
fn late(world: &World) -> Option<JobId> {
    let epoch = world.book.epoch();
    let last = world.book.jobs().last().filter(|_| epoch.number > 1 && world.setting.last != Comes::First)?;
    (last.seq >= epoch.first_seq).then_some(last.id)
}

/// A rescuer of two steps: it looks at what has run out, and later queues
/// again what it saw then.
fn scan(world: &mut World, flaw: Flaw) -> Answer {
    if flaw != Flaw::BlindRescue {
        return None;
    }
    let seen = std::mem::take(&mut world.memory.scanned);
    if seen.is_empty() {
        let out = |job: &&Job| job.lease().is_some_and(|lease| lease.expires_at <= world.now);
        world.memory.scanned = world.book.jobs().filter(out).map(|job| job.id).collect();
    }
    for id in seen {
        force(&mut world.book, id, |job| job.state = State::Queued);
    }
    None
}

/// Takes back at once what has run out, as if somebody had looked before.
fn one_look(world: &mut World) {
    remark(world, |_| Some(Time::MIN));
    world.book.expire(world.store_now());
}

/// Marks as some flaw would have it the leases that have run out.
fn remark(world: &mut World, to: impl Fn(&Lease) -> Option<Time>) {
    let now = world.now;
    let out =
        |job: &Job| job.lease().filter(|lease| lease.expires_at <= now).map(|lease| (job.id, to(lease)));
    let marks: Vec<_> = world.book.jobs().filter_map(out).collect();
    for (id, marked_at) in marks {
        // Old enough, and no older than the rule lets count.
        mark(&mut world.book, id, marked_at.map(|at| at.max(now.plus_ms(-WAIT_MS))));
    }
}

fn mark(book: &mut Book, id: JobId, marked_at: Option<Time>) {
    force(book, id, |job| {
        if let State::Running(lease) = &mut job.state {
            lease.marked_at = marked_at;
        }
    });
}

fn expire(world: &mut World, flaw: Flaw) -> Answer {
    match flaw {
        Flaw::OneLook => one_look(world),
        Flaw::NoWait => remark(world, |lease| lease.marked_at.map(|_| Time::MIN)),
        Flaw::OldMarkCounts => remark(world, |lease| lease.marked_at),
        _ => {}
    }
    world.expire_due = false;
    let third_ms = u64::from(world.setting.lease_ms / 3);
    let waits = |lease: &Lease| lease.marked_at.is_some_and(|at| world.now.ms_since(at) < third_ms);
    if flaw == Flaw::WaitNotCapped && world.book.jobs().filter_map(Job::lease).any(waits) {
        return None;
    }
    let expired = world.book.expire(world.store_now());
    world.memory.used = world.memory.used.saturating_sub(expired.jobs.len() as u32);
    if flaw == Flaw::FenceReset {
        for id in expired.jobs {
            force(&mut world.book, id, |job| job.fence = 0);
        }
    }
    None
}

fn cancel(world: &mut World, id: JobId, flaw: Flaw) -> Answer {
    world.canceled.push(id);
    let now = world.now;
    if flaw == Flaw::BlindCancel {
        force(&mut world.book, id, |job| job.state = State::Canceled { ended_at: now });
    } else {
        world.book.cancel(&[id], now);
    }
    None
}

/// A heartbeat that asks nothing: the job runs again, with this fence.
fn revive(world: &mut World, worker: usize, lease: LeaseRef) {
    let (now, lease_ms) = (world.now, world.setting.lease_ms);
    force(&mut world.book, lease.job_id, |job| {
        job.state = State::Running(windlass_core::state::Lease {
            worker: worker_name(worker),
            fence: lease.fence,
            started_at: now,
            lease_ms,
            expires_at: now.plus_ms(i64::from(lease_ms)),
            cancel_requested: false,
            marked_at: None,
        });
    });
}

/// Changes a job behind the book's back, as no function of core would.
fn force(book: &mut Book, id: JobId, change: impl FnOnce(&mut Job)) {
    edit(book, |document| {
        for entry in document["jobs"].as_array_mut().expect("jobs") {
            let mut job: Job = serde_json::from_str(&entry.to_string()).expect("a job");
            if job.id == id {
                change(&mut job);
                let text = serde_json::to_string(&job).expect("a job");
                *entry = serde_json::from_str(&text).expect("JSON");
                break;
            }
        }
    });
}

/// Changes a book as a document.
fn edit(book: &mut Book, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let text = serde_json::to_string(&book.to_document()).expect("a document");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    change(value.as_object_mut().expect("a document"));
    let document: Document = serde_json::from_str(&value.to_string()).expect("a document");
    *book = Book::from_document(document).expect("a book");
}
