//! The world around the book: two workers, a network without manners, a clock.

use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::holding::{Holding, May};
use windlass_core::id::{JobId, Key, Kind, QueueName, WorkerName};
use windlass_core::job::{Job, JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::LeaseRef;
use windlass_core::time::Time;

/// The wait between two looks, for every lease of these worlds.
pub const WAIT_MS: i64 = 1_000;
/// For how many ticks a store that freezes stays frozen at least: longer than two waits. (One that freezes again
/// for one to two waits before a holder could renew is a limit of the rule, and said in the guide.)
const FROZEN_TICKS_MIN: u8 = 3;
pub const ATTEMPTS_MAX: u32 = 3;
pub const CRASHES_MAX: u32 = 2;

/// How large a world is.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub jobs: u128,
    pub key: bool,
    pub limit: Option<u32>,
    pub ticks: u8,
    pub crashes: u8,
    pub copies: u8,
    pub asks: [u8; 2],
    pub cancels: bool,
    pub steps: bool,
    pub effects: bool,
    /// How long a lease lasts, and how far the clock goes in one tick.
    pub lease_ms: u32,
    pub tick_ms: u64,
    /// How often the store freezes.
    pub freezes: u8,
    /// Whether workers look at their own clock, and stand still before the end of a lease.
    pub still: bool,
    /// How many messages are on their way at once.
    pub net_max: usize,
    /// How a worker may end an attempt.
    pub ends: &'static [End],
    /// How often a standby is promoted, and how many of the newest commits it may not have heard of.
    pub promotions: u8,
    pub lost_max: usize,
    /// How far the clock of a standby is ahead of the one that it follows.
    pub ahead_ms: i64,
    /// When the last of the jobs comes.
    pub last: Comes,
    /// How long the leases are that the first worker asks for; those of the second are the queue's.
    pub longer_ms: Option<u32>,
    /// Whether workers look now and then, once in a tick at any moment of it, instead of at every moment.
    pub looks: bool,
    /// Whether answers to renewals are on their way for a while, as claims and their answers are.
    pub late_answers: bool,
    /// Whether the worker says nothing more, and the store is looked at once in each tick from the end of the lease on.
    pub silent: bool,
    /// Whether workers ask the store for something in each tick, and so hear of another epoch; no message is on its way for
    /// longer than a tick.
    pub hears: bool,
}

/// When a job comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comes {
    /// It is there.
    First,
    /// At any moment, and once more under the same id if it is lost.
    Again,
    /// At any moment, with an id that is made then.
    Fresh,
}

/// What is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    Claim {
        worker: usize,
        request: u8,
    },
    Grant {
        worker: usize,
        request: u8,
        lease: LeaseRef,
    },
    /// With when it was sent, where workers look at their clock.
    Renew {
        worker: usize,
        lease: LeaseRef,
        sent: Time,
    },
    /// It was taken, and whoever stood still stands until then.
    Renewed {
        worker: usize,
        lease: LeaseRef,
        sent: Time,
        still_until: Time,
    },
    Step {
        worker: usize,
        lease: LeaseRef,
    },
    Settle {
        worker: usize,
        lease: LeaseRef,
        end: End,
    },
    Effect {
        lease: LeaseRef,
    },
}

impl Message {
    fn is_for_the_store(&self) -> bool {
        match self {
            Self::Claim { .. } | Self::Renew { .. } | Self::Step { .. } | Self::Settle { .. } => true,
            Self::Grant { .. } | Self::Renewed { .. } | Self::Effect { .. } => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    Done,
    Retry,
    Release,
}

/// What a worker believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Worker {
    Idle,
    Asking(u8),
    Holding(LeaseRef),
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    Send {
        worker: usize,
        message: Message,
        then: Worker,
    },
    GiveUp {
        worker: usize,
    },
    Crash {
        worker: usize,
    },
    /// A worker hears from the store, by whatever it asks, and of another instance of it if there is one.
    Hear {
        worker: usize,
    },
    /// A worker looks at its lease.
    Look {
        worker: usize,
    },
    Deliver {
        message: Message,
        kept: bool,
    },
    Lose {
        message: Message,
    },
    Tick,
    Freeze,
    Thaw,
    /// A standby takes over that has not heard of so many commits; nobody has asked it for anything yet.
    Promote {
        lost: usize,
    },
    Enqueue {
        job: JobId,
    },
    Scan,
    Expire,
    Cancel {
        job: JobId,
    },
}

/// Everything at one moment.
#[derive(Clone)]
pub struct World {
    pub book: Book,
    pub now: Time,
    pub workers: [Worker; 2],
    pub asked: [u8; 2],
    pub net: Vec<Message>,
    pub ticks: u8,
    pub crashes: u8,
    pub copies: u8,
    pub canceled: Vec<JobId>,
    /// How often the store may still freeze, and for how many ticks it has been frozen.
    pub freezes: u8,
    pub frozen: Option<u8>,
    /// When each worker sent its claim, or its last renewal that was taken.
    pub sent: [Time; 2],
    /// Until when each worker stands still since its renewal was answered so.
    pub still_until: [Time; 2],
    /// Who goes on until the next tick without having looked at its clock; only where that is the flaw.
    pub unlooked: [bool; 2],
    /// Who stands still since it looked, and who has not looked in this tick; only where workers look now and then.
    pub stands: [bool; 2],
    pub look_due: [bool; 2],
    /// Who has not heard from the store in this tick, and which epoch each has heard of; only where workers hear in each.
    pub hear_due: [bool; 2],
    pub heard: [u64; 2],
    /// Nobody has looked at the store in this tick; only where somebody has to.
    pub expire_due: bool,
    /// How often a standby may still be promoted, and what the book was before its newest commits.
    pub promotions: u8,
    pub log: Vec<Book>,
    /// Whether the history was cut, and nobody has noticed.
    pub cut: bool,
    /// How far the store's clock is ahead.
    pub ahead_ms: i64,
    /// What the laws remember.
    pub ghost: crate::laws::Ghost,
    /// What a server with a flaw remembers.
    pub memory: crate::server::Memory,
    pub setting: Setting,
}

impl World {
    /// The beginning: all jobs queued, all workers idle.
    pub fn new(setting: Setting, keys: bool, limit: Option<u32>) -> Self {
        let mut book = Book::new();
        let now = Time::from_ms(1_000_000);
        let policy = QueuePolicy {
            limit,
            ladder: "0ms 50ms".parse().expect("a ladder"),
            lease_ms: setting.lease_ms,
            crashes_max: CRASHES_MAX,
            ..Default::default()
        };
        book.put_queue(queue(), policy, now).expect("a policy");
        let there = setting.jobs - u128::from(setting.last != Comes::First);
        let jobs = (0..there).map(|n| new_job(id(n), &setting, keys)).collect();
        book.enqueue(jobs, now).expect("jobs");
        book.keep_events(0);
        Self {
            book,
            now,
            workers: [Worker::Idle; 2],
            asked: [0; 2],
            net: Vec::new(),
            ticks: setting.ticks,
            crashes: setting.crashes,
            copies: setting.copies,
            canceled: Vec::new(),
            freezes: setting.freezes,
            frozen: None,
            sent: [now; 2],
            still_until: [Time::MIN; 2],
            unlooked: [false; 2],
            stands: [false; 2],
            look_due: [false; 2],
            hear_due: [false; 2],
            heard: [1; 2],
            expire_due: false,
            promotions: setting.promotions,
            log: Vec::new(),
            cut: false,
            ahead_ms: 0,
            ghost: Default::default(),
            memory: Default::default(),
            setting,
        }
    }

    /// All that can happen now.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for worker in 0..2 {
            self.worker_actions(worker, &mut actions);
        }
        let frozen = self.frozen.is_some();
        for message in self.net.iter().filter(|message| !frozen || !message.is_for_the_store()) {
            actions.push(Action::Deliver { message: *message, kept: false });
            actions.push(Action::Lose { message: *message });
            if self.copies > 0 {
                actions.push(Action::Deliver { message: *message, kept: true });
            }
        }
        let due = (0..2).filter(|worker| self.look_due[*worker]);
        actions.extend(due.map(|worker| Action::Look { worker }));
        let due = (0..2).filter(|worker| self.hear_due[*worker] && self.frozen.is_none());
        actions.extend(due.map(|worker| Action::Hear { worker }));
        if self.ticks > 0 && !self.is_anything_due() {
            actions.push(Action::Tick);
        }
        if self.promotions > 0 {
            actions.extend((0..=self.log.len()).map(|lost| Action::Promote { lost }));
        }
        match self.frozen {
            Some(ticks) if ticks >= FROZEN_TICKS_MIN => actions.push(Action::Thaw),
            None if self.freezes > 0 => actions.push(Action::Freeze),
            _ => {}
        }
        if frozen {
            return actions;
        }
        actions.push(Action::Scan);
        if !self.setting.silent || self.has_run_out() {
            actions.push(Action::Expire);
        }
        if self.book.len() < self.setting.jobs as usize {
            let n = self.setting.jobs - 1;
            let job = if self.setting.last == Comes::Fresh { id_at(self.store_now(), n) } else { id(n) };
            actions.push(Action::Enqueue { job });
        }
        let cancelable = self.book.jobs().map(|job| job.id).filter(|id| !self.canceled.contains(id));
        let cancelable = cancelable.take(usize::from(self.setting.cancels));
        actions.extend(cancelable.map(|job| Action::Cancel { job }));
        actions
    }

    /// Whether somebody has to do something before time goes on.
    fn is_anything_due(&self) -> bool {
        let on_its_way = self.setting.hears && !self.net.is_empty();
        self.look_due != [false; 2] || self.hear_due != [false; 2] || self.expire_due || on_its_way
    }

    fn worker_actions(&self, worker: usize, actions: &mut Vec<Action>) {
        let mut send = |message: Message, then: Worker| {
            if self.net.len() < self.setting.net_max && !self.net.contains(&message) {
                actions.push(Action::Send { worker, message, then });
            }
        };
        match self.workers[worker] {
            Worker::Idle => {
                let request = self.asked[worker];
                if request < self.setting.asks[worker] {
                    send(Message::Claim { worker, request }, Worker::Asking(request));
                }
            }
            Worker::Asking(request) => {
                send(Message::Claim { worker, request }, Worker::Asking(request));
                actions.push(Action::GiveUp { worker });
            }
            Worker::Holding(lease) => {
                let holding = Worker::Holding(lease);
                let sent = if self.setting.still { self.now } else { self.sent[worker] };
                if !self.setting.silent {
                    send(Message::Renew { worker, lease, sent }, holding);
                }
                if self.setting.steps {
                    send(Message::Step { worker, lease }, holding);
                }
                if self.setting.effects {
                    send(Message::Effect { lease }, holding);
                }
                for end in self.setting.ends {
                    send(Message::Settle { worker, lease, end: *end }, Worker::Idle);
                }
                if self.crashes > 0 {
                    actions.push(Action::Crash { worker });
                }
            }
        }
    }

    /// The job that a worker works on at this moment: it holds the lease, and does not stand still.
    pub fn at_work(&self, worker: usize) -> Option<JobId> {
        let Worker::Holding(lease) = self.workers[worker] else { return None };
        let stands = if self.setting.looks { self.stands[worker] } else { self.must_stand(worker) };
        (!stands || self.unlooked[worker]).then_some(lease.job_id)
    }

    /// Whether a look makes it stand still.
    pub fn must_stand(&self, worker: usize) -> bool {
        self.by_its_clock(worker) == May::HoldStill || self.now < self.still_until[worker]
    }

    /// Whether the end of a lease has passed.
    pub fn has_run_out(&self) -> bool {
        self.book.jobs().filter_map(Job::lease).any(|lease| lease.expires_at <= self.store_now())
    }

    /// What a worker may do with its lease by its own clock.
    pub fn by_its_clock(&self, worker: usize) -> May {
        let held = Holding {
            sent_ms: self.sent[worker].ms() as u64,
            lease_ms: u64::from(self.lease_ms(worker)),
            look_ms: self.setting.tick_ms / if self.setting.looks { 2 } else { 4 },
        };
        held.may(self.now.ms() as u64)
    }

    /// How long the leases of a worker are.
    pub fn lease_ms(&self, worker: usize) -> u32 {
        self.setting.longer_ms.filter(|_| worker == 0).unwrap_or(self.setting.lease_ms)
    }

    /// The time by the store's clock.
    pub fn store_now(&self) -> Time {
        self.now.plus_ms(self.ahead_ms)
    }

    /// A job, unless it was never there, or lost with what accepted it.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.book.job(id)
    }
}

/// A job as it comes.
pub fn new_job(id: JobId, setting: &Setting, keys: bool) -> NewJob {
    let mut spec = JobSpec::new(kind(id), queue(), Json::null());
    spec.key = (setting.key && keys).then(|| Key::new("shop").expect("a key"));
    NewJob { id, spec, start: Start::Now }
}

/// The kind of a job; what comes later has one of its own.
pub fn kind(id: JobId) -> Kind {
    Kind::new(if id.0.get_version_num() == 7 { "fresh" } else { "k" }).expect("a kind")
}

/// An id that says when it was made.
fn id_at(at: Time, n: u128) -> JobId {
    JobId(Uuid::from_u128((u128::from(at.ms().unsigned_abs()) << 80) | (7 << 76) | (0b10 << 62) | n))
}

pub fn queue() -> QueueName {
    QueueName::default()
}

pub fn id(n: u128) -> JobId {
    JobId(Uuid::from_u128(n + 1))
}

pub fn worker_name(worker: usize) -> WorkerName {
    WorkerName::new(["first", "second"][worker]).expect("a name")
}
