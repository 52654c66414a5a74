//! The server: the real book, or the book with a flaw; and the flaws of workers.

use windlass_core::book::{Book, Document};
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::state::{Lease, State};
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement, StepWrite, Written};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;

use crate::world::{Action, End, Message, WAIT_MS, Worker, World, queue, worker_name};

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
    /// A worker counts its lease from when it got it, not from when it asked.
    CountsFromTheAnswer,
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

/// Lets something happen.
pub fn act(world: &mut World, action: Action, flaw: Flaw) -> Answer {
    let answer = match action {
        Action::Send { worker, message, then } => {
            let first = world.workers[worker] == Worker::Idle;
            world.workers[worker] = then;
            world.asked[worker] += u8::from(matches!(then, Worker::Asking(n) if n == world.asked[worker]));
            if first && world.setting.still {
                world.sent[worker] = world.now;
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
        Action::Scan => scan(world, flaw),
        Action::Expire => expire(world, flaw),
        Action::Cancel { job } => cancel(world, job, flaw),
    };
    world.book.keep_events(0);
    answer
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
                if flaw == Flaw::CountsFromTheAnswer {
                    world.sent[worker] = world.now;
                }
            }
            None
        }
        Message::Renew { worker, lease, sent } => {
            let lease = seen(world, worker, lease, flaw);
            if flaw == Flaw::BlindHeartbeat {
                revive(world, worker, lease);
            }
            let marked_at = world.job(lease.job_id).lease().and_then(|held| held.marked_at);
            let renewed = !world.book.renew(&[lease], world.now).renewed.is_empty();
            if renewed && world.workers[worker] == Worker::Holding(lease) {
                world.sent[worker] = world.sent[worker].max(sent);
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
            world.book.store_steps(&[step], world.now).first().copied()
        }
        Message::Settle { worker, lease, end } => {
            let lease = seen(world, worker, lease, flaw);
            world.memory.used = world.memory.used.saturating_sub(1);
            let outcome = match end {
                End::Done => Outcome::DONE,
                End::Retry => Outcome::Retry { error: String::new(), when: None },
                End::Release => Outcome::Released,
            };
            world.book.settle(&[Settlement { lease, outcome }], world.now).first().copied()
        }
        Message::Effect { lease } => {
            let newest = world.ghost.effect(lease.job_id);
            let taken = flaw == Flaw::UnfencedEffect || lease.fence >= newest;
            Some(if taken { Written::Done } else { Written::Lost })
        }
    }
}

/// The lease as the server takes it.
fn seen(world: &World, worker: usize, lease: LeaseRef, flaw: Flaw) -> LeaseRef {
    let job = world.job(lease.job_id);
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
    let wish = ClaimRequest {
        request_id: uuid::Uuid::from_u128(worker as u128 * 1_000 + u128::from(request) + 1),
        worker: worker_name(worker),
        queues: vec![queue()],
        kinds: None,
        limit: 1,
        lease_ms: None,
    };
    if flaw == Flaw::ClaimTakesBack {
        one_look(world);
    }
    let fences: Vec<u64> = world.book.jobs().map(|job| job.fence).collect();
    let answer = world.book.claim(&wish, world.now).expect("a claim that makes sense");
    let lease = answer.leases.first()?.lease_ref();
    let new = world.book.jobs().map(|job| job.fence).ne(fences);
    world.memory.used += u32::from(new && flaw == Flaw::DoubleRelease);
    put(world, Message::Grant { worker, request, lease })
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
    world.book.expire(world.now);
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
    let expired = world.book.expire(world.now);
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
    let text = serde_json::to_string(&book.to_document()).expect("a document");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let jobs = value["jobs"].as_array_mut().expect("jobs");
    for entry in jobs.iter_mut() {
        let mut job: Job = serde_json::from_str(&entry.to_string()).expect("a job");
        if job.id == id {
            change(&mut job);
            let text = serde_json::to_string(&job).expect("a job");
            *entry = serde_json::from_str(&text).expect("JSON");
            break;
        }
    }
    let document: Document = serde_json::from_str(&value.to_string()).expect("a document");
    *book = Book::from_document(document).expect("a book");
}
