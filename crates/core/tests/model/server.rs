//! The server: the real book, or the book with one of nine flaws.

use windlass_core::book::{Book, Document};
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::state::State;
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement, StepWrite, Written};
use windlass_core::transition::Outcome;

use crate::world::{Action, End, Message, Worker, World, queue, worker_name};

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
            world.workers[worker] = then;
            world.asked[worker] += u8::from(matches!(then, Worker::Asking(n) if n == world.asked[worker]));
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
            world.now = world.now.plus_ms(crate::world::TICK_MS as i64);
            world.ticks -= 1;
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
            }
            None
        }
        Message::Renew { worker, lease } => {
            let lease = seen(world, worker, lease, flaw);
            if flaw == Flaw::BlindHeartbeat {
                revive(world, worker, lease);
            }
            let renewed = !world.book.renew(&[lease], world.now).renewed.is_empty();
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

fn expire(world: &mut World, flaw: Flaw) -> Answer {
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
        world.book.cancel(id, now);
    }
    None
}

/// A heartbeat that asks nothing: the job runs again, with this fence.
fn revive(world: &mut World, worker: usize, lease: LeaseRef) {
    let now = world.now;
    force(&mut world.book, lease.job_id, |job| {
        job.state = State::Running(windlass_core::state::Lease {
            worker: worker_name(worker),
            fence: lease.fence,
            started_at: now,
            lease_ms: crate::world::LEASE_MS,
            expires_at: now.plus_ms(i64::from(crate::world::LEASE_MS)),
            cancel_requested: false,
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
