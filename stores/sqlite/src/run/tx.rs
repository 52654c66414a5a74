//! What a write works with: the connection inside its transaction, the time,
//! the counters, and what has to be written at its end.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};
use windlass_core::book::{Moves, Queue};
use windlass_core::event::What;
use windlass_core::id::QueueName;
use windlass_core::job::Job;
use windlass_core::state::StateName;
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::fail::Done;
use crate::ready::emptied::Emptied;
use crate::ready::gate;
use crate::ready::upcoming::Upcoming;
use crate::rows::due::DueChanges;
use crate::rows::ended;
use crate::rows::epoch::EpochNow;
use crate::rows::head::Head;
use crate::rows::known::KnownJobs;
use crate::rows::tally::Changes;
use crate::run::many::Grouped;
use crate::run::others::Others;
use crate::verbs::{events, queues};

/// A queue with its name, as the operations of a writer share it.
#[derive(Debug)]
pub struct NamedQueue {
    /// Its name.
    pub name: QueueName,
    /// Its policy, and whether it is paused.
    pub queue: Queue,
}

/// What is remembered between operations: queues, as long as none of them changes, and what never changes of leased jobs.
#[derive(Debug, Default)]
pub struct Memory {
    rev: i64,
    queues: HashMap<QueueName, Arc<NamedQueue>>,
    /// The one that was asked for last.
    newest: Option<Arc<NamedQueue>>,
    /// The jobs that were leased and are not settled.
    pub leased: KnownJobs,
    /// Who comes next in the lines of keys.
    pub upcoming: Upcoming,
    /// The lines that have run empty.
    pub emptied: Emptied,
    others: Others,
    /// The epoch, and since which change of it.
    epoch: Option<(i64, EpochNow)>,
    /// The longest that this program lets an epoch hold back anything.
    pause_ms_max: Option<u32>,
}

/// Names beyond this are not remembered: queues may be many.
const QUEUES_REMEMBERED: usize = 10_000;

impl Memory {
    /// That of a program that lets an epoch hold back nothing for longer than this.
    pub fn new(pause_ms_max: Option<u32>) -> Self {
        Self { pause_ms_max, ..Self::default() }
    }

    /// Forgets the queues when one has changed since.
    pub fn follow(&mut self, rev: i64) {
        if self.rev != rev || self.queues.len() > QUEUES_REMEMBERED {
            self.rev = rev;
            self.forget_queues();
        }
    }

    fn forget_queues(&mut self) {
        self.queues.clear();
        self.newest = None;
    }

    /// Forgets everything: writes were undone.
    pub fn forget(&mut self) {
        self.forget_queues();
        self.leased.forget();
        self.forget_lines();
        self.forget_epoch();
    }

    fn forget_epoch(&mut self) {
        self.epoch = None;
    }

    fn forget_lines(&mut self) {
        self.upcoming.forget();
        self.emptied.forget();
    }

    /// A transaction begins: others may have written before it.
    pub fn begin(&mut self) {
        self.others.begin();
    }

    /// Forgets what is remembered of lines when others have written since.
    pub fn heed_others(&mut self, conn: &Connection) -> Done<()> {
        if self.others.have_written(conn)? {
            self.forget_lines();
        }
        Ok(())
    }
}

/// What an operation leaves to the group that it is one of.
#[derive(Debug)]
pub struct Finished {
    /// The counters after it.
    pub head: Head,
    /// Where a worker may find something that it did not find before.
    pub wake: Option<Work>,
    /// What is still to be written.
    pub due: DueChanges,
    /// Everything that was still to be written before it is written by now.
    pub due_counted: bool,
}

/// One operation of the writer.
pub struct Tx<'a> {
    /// The connection, inside the transaction.
    pub conn: &'a Connection,
    /// The store's time.
    pub now: Time,
    /// The counters.
    pub head: Head,
    /// What is remembered between operations.
    pub memory: &'a mut Memory,
    /// What moved, for the events.
    pub moves: Moves,
    /// What moved, for the numbers.
    pub changes: Changes,
    /// What moved, for the moments at which queued jobs are due.
    pub due: DueChanges,
    /// They were counted anew.
    pub due_counted: bool,
    /// What ended, for retention.
    pub ended: Grouped<QueueName, i64>,
    /// Whether a worker may find something that it did not find before.
    pub wake: bool,
    /// The gate that this operation has woken last.
    woken: Option<i64>,
    /// The store's time has stepped: what a worker may find has not moved.
    pub stepped: bool,
}

impl<'a> Tx<'a> {
    /// An operation at `now`.
    pub fn new(conn: &'a Connection, head: Head, memory: &'a mut Memory, now: Time) -> Self {
        memory.follow(head.queues_rev);
        Self {
            conn,
            now,
            head,
            memory,
            moves: Moves::default(),
            changes: Changes::default(),
            due: DueChanges::default(),
            due_counted: false,
            ended: Grouped::default(),
            wake: false,
            woken: None,
            stepped: false,
        }
    }

    /// A job of this gate becomes ready.
    pub fn wake_gate(&mut self, gate: i64) -> Done<()> {
        if self.woken != Some(gate) {
            gate::wake(self, gate)?;
            self.woken = Some(gate);
        }
        Ok(())
    }

    /// A statement that stays prepared.
    pub fn sql(&self, sql: &'static str) -> Done<CachedStatement<'a>> {
        Ok(self.conn.prepare_cached(sql)?)
    }

    /// The epoch that the store is in.
    pub fn epoch(&mut self) -> Done<EpochNow> {
        let rev = self.head.epoch_rev;
        if let Some((_, epoch)) = self.memory.epoch.filter(|(known, _)| *known == rev) {
            return Ok(epoch);
        }
        let epoch = EpochNow::load(self.conn, self.memory.pause_ms_max)?;
        self.memory.epoch = Some((rev, epoch));
        Ok(epoch)
    }

    /// A queue, by its name.
    pub fn queue(&mut self, name: &str) -> Done<Arc<NamedQueue>> {
        let newest = self.memory.newest.as_ref().filter(|queue| queue.name.as_str() == name);
        if let Some(queue) = newest {
            return Ok(Arc::clone(queue));
        }
        let queue = match self.memory.queues.get(name) {
            Some(queue) => Arc::clone(queue),
            None => self.load_queue(name)?,
        };
        self.memory.newest = Some(Arc::clone(&queue));
        Ok(queue)
    }

    fn load_queue(&mut self, name: &str) -> Done<Arc<NamedQueue>> {
        let queue = Arc::new(NamedQueue {
            name: QueueName::new(name)?,
            queue: queues::load(self.conn, name)?.unwrap_or_default(),
        });
        self.memory.queues.insert(queue.name.clone(), Arc::clone(&queue));
        Ok(queue)
    }

    /// Notes that a queue was changed.
    pub fn queue_changed(&mut self) {
        self.head.queues_rev += 1;
        self.memory.follow(self.head.queues_rev);
    }

    /// Notes that a job moved; `to` is nothing when it was deleted with the move.
    pub fn moved(&mut self, what: What, job: &Job, from: Option<StateName>, to: Option<StateName>) {
        self.moves.add(what, job);
        self.changes.moved(&job.spec.queue, &job.spec.budgets, from, to);
        if to.is_some_and(StateName::is_final) {
            self.ended.add(&job.spec.queue, job.seq.cast_signed());
        }
        // No move out of the queue changes the moment, so what it was is what it is.
        let queued = |state| i64::from(state == Some(StateName::Queued));
        self.due.add(&job.spec.queue, job.run_at, queued(to) - queued(from));
    }

    /// Writes what the operation has gathered, but for what its group writes.
    pub fn finish(mut self) -> Done<Finished> {
        let moves = std::mem::take(&mut self.moves);
        for (what, queue, jobs) in moves.0 {
            events::insert(&mut self, what, &queue, &jobs)?;
        }
        for (queue, seqs) in std::mem::take(&mut self.ended).0 {
            ended::add(&self, &queue, self.head.next_event.cast_signed(), &seqs)?;
        }
        self.changes.save(self.conn)?;
        let wake = self.wake.then(|| if self.stepped { Work::Anywhere } else { self.changes.work() });
        self.head.seen = self.head.seen.max(self.now);
        let Self { head, due, due_counted, .. } = self;
        Ok(Finished { head, wake, due, due_counted })
    }
}
