//! The operations of a generated sequence, in small alphabets, so that keys,
//! budgets and ids collide often. They print as one line each.

use std::fmt;

use windlass_core::policy::budget::BudgetPolicy;

/// A sequence, printed line by line.
#[derive(Clone)]
pub struct Plan(pub Vec<Turn>);

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Turn { by, hint, op }) in self.0.iter().enumerate() {
            match hint {
                Hint::Own => writeln!(f, "{:>3}. {by:?}: {op:?}", at + 1)?,
                hint => writeln!(f, "{:>3}. {by:?}: {op:?}, tickets: {hint:?}", at + 1)?,
            }
        }
        Ok(())
    }
}

/// One operation, the handle of the store by which it is done, and what becomes of the tickets of its leases.
#[derive(Debug, Clone)]
pub struct Turn {
    pub by: Handle,
    pub hint: Hint,
    pub op: Op,
}

impl Turn {
    /// As it should be.
    pub fn new(by: Handle, op: Op) -> Self {
        Self { by, hint: Hint::Own, op }
    }
}

/// Which tickets are handed back with leases.
#[derive(Debug, Clone, Copy)]
pub enum Hint {
    /// The newest of each job.
    Own,
    Nothing,
    /// Those of others, from this one on, counted from the newest.
    Other(usize),
    /// The own one, but for every so many'th lease of the call.
    Some(u8),
    /// The own one with one byte changed.
    Forged {
        byte: usize,
        by: u8,
    },
}

/// Two programs that have one store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handle {
    First,
    Second,
}

impl Handle {
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// One operation. Small numbers name queues, kinds, keys, budgets and workers;
/// jobs are named by their place among those that were ever enqueued.
#[derive(Debug, Clone)]
pub enum Op {
    Enqueue(Vec<Seed>),
    /// Many new jobs that differ in id and payload only.
    EnqueueAlike {
        queue: u8,
        kind: u8,
        jobs: usize,
    },
    Claim {
        worker: u8,
        queues: Vec<u8>,
        kinds: Option<Vec<u8>>,
        limit: u32,
        lease_ms: Option<u32>,
    },
    ClaimAgain {
        which: usize,
    },
    /// The request id of an earlier claim, by somebody else or for something else.
    ClaimStolen {
        which: usize,
        theft: Theft,
    },
    Renew(Vec<(usize, Fence)>),
    Steps(Vec<(usize, Fence, u8)>),
    Progress(Vec<(usize, Fence)>),
    Settle(Vec<(usize, Fence, End)>),
    /// Renews what an earlier claim gave.
    RenewClaim {
        which: usize,
        share: Share,
    },
    /// Ends what an earlier claim gave, the first job as the first of these says, and so on, round and round.
    SettleClaim {
        which: usize,
        share: Share,
        ends: Vec<End>,
    },
    /// An earlier settlement once more, as if its answer had been lost.
    SettleAgain {
        which: usize,
    },
    /// The program of the second handle ends and starts again: it has forgotten everything.
    Restart,
    /// All programs end, the history is cut, and they start again in a new epoch.
    Cut,
    Cancel(Vec<usize>),
    Retry(Vec<usize>),
    RunNow(Vec<usize>),
    /// Jobs, each from one of the steps that `Steps` stores.
    Rerun(Vec<(usize, u8)>),
    Delete(Vec<usize>),
    DeleteQueue {
        queue: u8,
    },
    DeleteBudget {
        budget: u8,
    },
    Expire,
    /// Time passes, somebody looks at the leases, time passes, somebody looks again.
    TwoLooks {
        first_ms: u64,
        second_ms: u64,
    },
    Prune,
    Pause {
        queue: u8,
        paused: bool,
    },
    PutQueue {
        queue: u8,
        policy: Policy,
    },
    PutBudget {
        budget: u8,
        policy: BudgetPolicy,
    },
    CoolDown {
        budget: u8,
        for_ms: u64,
    },
    Spend {
        budget: u8,
        amount: u32,
    },
    PutSchedule {
        schedule: u8,
        rule: u8,
        missed: u8,
        skip: bool,
        paused: bool,
    },
    DeleteSchedule {
        schedule: u8,
    },
    Fire,
    Beat {
        worker: u8,
        picky: bool,
    },
    Forget {
        worker: u8,
    },
    Advance {
        ms: u64,
    },
    /// A batch of records and jobs, maybe under a lease.
    Write {
        lease: Option<(usize, Fence)>,
        pens: Vec<Pen>,
        jobs: Vec<Seed>,
    },
    /// An earlier batch once more, as if its answer had been lost.
    WriteAgain {
        which: usize,
    },
    /// All pages of a scan.
    Scan {
        shelf: u8,
        order: u8,
        descending: bool,
        prefix: u8,
        label: Option<u8>,
        limit: u32,
    },
    /// Records by their keys, and how many there are.
    Read {
        shelf: u8,
        keys: Vec<u8>,
        prefix: u8,
    },
}

/// One write of a record.
#[derive(Debug, Clone)]
pub struct Pen {
    pub shelf: u8,
    pub key: u8,
    pub guess: Guess,
    pub ink: Option<Ink>,
}

/// Which revision a write names.
#[derive(Debug, Clone, Copy)]
pub enum Guess {
    /// None.
    Any,
    /// That nothing is there.
    Absent,
    /// What is there.
    Right,
    /// What was there once, or never.
    Wrong(usize),
}

/// What is written.
#[derive(Debug, Clone)]
pub struct Ink {
    pub value: u8,
    pub sort: i64,
    pub label: Option<u8>,
    pub keep: Lasting,
}

/// How long it is to be there.
#[derive(Debug, Clone, Copy)]
pub enum Lasting {
    Forever,
    For(u64),
    Until(u64),
}

/// What is other about a request whose id was used before.
#[derive(Debug, Clone, Copy)]
pub enum Theft {
    Worker,
    Queues,
    Kinds,
    /// The order alone, which is nothing.
    Order,
}

/// Which of the leases of a claim.
#[derive(Debug, Clone, Copy)]
pub enum Share {
    All,
    /// The first of them alone.
    First,
    /// Every second one, from the first or from the second on.
    Half {
        odd: bool,
    },
}

/// A job to be enqueued.
#[derive(Debug, Clone)]
pub enum Seed {
    /// One that was never there.
    New(Wish),
    /// Exactly one that was enqueued before.
    Again(usize),
    /// The id of one that was enqueued before, with another content.
    Clash(usize),
}

/// What a new job is like.
#[derive(Debug, Clone)]
pub struct Wish {
    pub queue: u8,
    pub kind: u8,
    pub priority: i16,
    pub key: Option<u8>,
    pub dedupe: Option<u8>,
    pub budgets: Vec<u8>,
    pub ladder: Option<u8>,
    pub delay_ms: u64,
}

/// Which fence a write names.
#[derive(Debug, Clone, Copy)]
pub enum Fence {
    /// The newest.
    Current,
    /// One before.
    Older,
    /// One that was never given.
    Newer,
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy)]
pub enum End {
    Done,
    DoneWithResult,
    Retry,
    RetryIn(u64),
    Failed,
    Park(u64),
    Release,
    Cancel,
}

/// The policy of a queue.
#[derive(Debug, Clone)]
pub struct Policy {
    pub limit: Option<u32>,
    pub ladder: u8,
    pub max_attempts: Option<u32>,
    pub lease_ms: u32,
    pub fail_on_crash: bool,
    pub crashes_max: u32,
    pub retention_days: u32,
    pub finished_max: u64,
    pub delete_finished: bool,
    pub ageing_ms: Option<u64>,
}
