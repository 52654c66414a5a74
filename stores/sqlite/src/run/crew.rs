//! What the writer's thread does with the calls: groups, commits, and what
//! follows when the disk is full or fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use windlass_core::error::StoreError;
use windlass_core::time::Clock;
use windlass_core::wake::Work;

use crate::disk::ballast::Ballast;
use crate::disk::file;
use crate::disk::incarnation;
use crate::disk::mark::MarkFile;
use crate::disk::watch::Watch;
use crate::fail::{Done, Fail, NO_ROOM};
use crate::options::Options;
use crate::rows::due::DueChanges;
use crate::rows::head::Head;
use crate::run::tx::{Finished, Memory, Tx};
use crate::run::wake::Wakers;
use crate::run::writer::{Call, Health, Sort};
use crate::verbs::offered::Offered;

/// How many calls one commit carries.
const GROUP_MAX: usize = 512;
/// A group that has changed so many rows takes no further call: its callers wait for all of it.
const GROUP_ROWS_MAX: u64 = 20_000;
/// How long a group waits for callers of the group before, which are likely to
/// come back at once: less than a tenth of what the commit takes.
const PATIENCE: Duration = Duration::from_micros(40);
/// How long callers of a group are likely to come back: after that, the next that comes is taken to be alone.
const COME_BACK: Duration = Duration::from_millis(1);
/// How long a checkpoint waits for readers when the log has grown long.
const CHECKPOINT_WAIT: Duration = Duration::from_millis(50);
/// How often an idle store looks whether its files are still there.
const LOOK: Duration = Duration::from_millis(500);
/// What a page of the log takes at most, with its header.
const PAGE_BYTES: u64 = 4_096 + 24;

/// The writer's thread, with all that it owns.
pub struct Crew {
    conn: Connection,
    clock: Arc<dyn Clock>,
    memory: Memory,
    ballast: Ballast,
    mark: MarkFile,
    watch: Watch,
    /// The number of the newest commit that was seen.
    commits: u64,
    wakers: Arc<Wakers>,
    health: Health,
    wal_pages: Arc<AtomicU32>,
    wal_pages_max: u32,
    /// How long the log must be for the next checkpoint: longer, when one was held back.
    checkpoint_at: u32,
    /// Whether jobs may be added, as far as this group has asked.
    room: Option<bool>,
    busy: Duration,
    expected: usize,
    /// So many of the newest group are calls; behind them are claims of those who waited for work.
    callers: usize,
}

/// What the calls of a group hand from one to the next, written at its end.
struct GroupState {
    head: Head,
    due: DueChanges,
    /// Where there is new work.
    wake: Option<Work>,
}

fn merged(one: Option<Work>, other: Option<Work>) -> Option<Work> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            one.add(other);
            Some(one)
        }
        (one, other) => one.or(other),
    }
}

impl GroupState {
    /// Goes on from what a call has finished.
    fn follow(&mut self, Finished { head, wake, due, due_counted }: Finished) {
        self.head = head;
        if due_counted {
            self.due = due;
        } else {
            self.due.merge(due);
        }
        self.wake = merged(self.wake.take(), wake);
    }
}

impl Crew {
    /// Opens the file, brings its schema up to date and begins the store's time.
    pub fn open(path: &Path, options: &Options, wakers: Arc<Wakers>, health: Health) -> Done<Self> {
        incarnation::refuse_to_start_empty(path)?;
        file::create(path)?;
        let mut conn = file::open_writer(path, options.busy_ms)?;
        let wal_pages = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&wal_pages);
        conn.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            seen.store(pages.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))?;
        let mark = incarnation::settle(&conn, path, options)?;
        file::sync_folder(path)?;
        Ok(Self {
            conn,
            clock: Arc::clone(&options.clock),
            memory: Memory::new(options.pause_ms_max),
            ballast: Ballast::new(path, options.ballast_bytes),
            mark,
            watch: Watch::new(path),
            commits: 0,
            wakers,
            health,
            wal_pages,
            wal_pages_max: options.wal_pages,
            checkpoint_at: options.wal_pages,
            room: None,
            busy: Duration::from_millis(u64::from(options.busy_ms)),
            expected: 1,
            callers: 0,
        })
    }

    /// Takes calls until no caller is left.
    pub fn work(&mut self, calls: &Receiver<Box<dyn Call>>) {
        while let Some(first) = self.first(calls) {
            let mut group = vec![first];
            let mut done = match self.health.get() {
                Some(stopped) => Err(Fail::Store(stopped.clone())),
                None => self.commit(&mut group, Some(calls)),
            };
            if done.as_ref().is_err_and(Fail::is_full) {
                self.ballast.release();
                done = self.commit(&mut group, None);
            }
            let wake = self.conclude(&mut group, done);
            // Workers first: a job that waits to be picked up has the longer way.
            for offered in group.split_off(self.callers.min(group.len())) {
                offered.answer();
            }
            if let Some(work) = wake {
                self.wakers.wake(&work);
            }
            self.expected = group.len();
            for call in group {
                call.answer();
            }
            self.checkpoint();
        }
        self.write_back();
    }

    /// At the end the file holds everything, so that a copy of it is whole, also when others have it open.
    fn write_back(&self) {
        if self.health.get().is_some() {
            return;
        }
        let mode = CheckpointMode::TRUNCATE;
        if let Err(error) = self.with_wait(CHECKPOINT_WAIT, |conn| conn.wal_checkpoint_v2(None::<&str>, mode))
        {
            tracing::debug!(%error, "the log stays beside the file");
        }
    }

    /// The first call of the next group; none when no caller is left.
    fn first(&mut self, calls: &Receiver<Box<dyn Call>>) -> Option<Box<dyn Call>> {
        if self.expected > 1 {
            match calls.recv_timeout(COME_BACK) {
                Ok(call) => return Some(call),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.expected = 1,
            }
        }
        loop {
            match calls.recv_timeout(LOOK) {
                Ok(call) => return Some(call),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.look(),
            }
        }
    }

    /// Stops when the files are not there any more.
    fn look(&self) {
        if self.health.get().is_none()
            && let Err(error) = self.watch.look()
        {
            self.stop(&error);
        }
    }

    /// What the callers of a group are told; answers where there is new work.
    fn conclude(&mut self, group: &mut [Box<dyn Call>], done: Done<Option<Work>>) -> Option<Work> {
        let fail = match done {
            Ok(wake) => return wake,
            Err(fail) => fail,
        };
        let fatal = fail.is_fatal();
        let error = fail.into_store_error();
        if fatal {
            self.stop(&error);
        }
        for call in group {
            call.fail(error.clone());
        }
        None
    }

    fn stop(&self, error: &StoreError) {
        tracing::error!(%error, "the store has stopped");
        // The first reason stays.
        let _ = self.health.set(error.clone());
    }

    /// Runs the calls of a group, and those that come meanwhile, in one transaction.
    fn commit(
        &mut self,
        group: &mut Vec<Box<dyn Call>>,
        calls: Option<&Receiver<Box<dyn Call>>>,
    ) -> Done<Option<Work>> {
        let done = self.try_commit(group, calls);
        if done.is_err() {
            self.roll_back();
            self.memory.forget();
        }
        done
    }

    fn try_commit(
        &mut self,
        group: &mut Vec<Box<dyn Call>>,
        calls: Option<&Receiver<Box<dyn Call>>>,
    ) -> Done<Option<Work>> {
        self.room = None;
        self.run("BEGIN IMMEDIATE")?;
        self.memory.begin();
        let mut state = GroupState { head: self.load_head()?, due: DueChanges::default(), wake: None };
        let changes = self.conn.total_changes();
        let mut at = 0;
        while at < group.len() {
            self.run_one(&mut *group[at], at == 0, &mut state)?;
            at += 1;
            if at == group.len()
                && at < GROUP_MAX
                && self.conn.total_changes() - changes < GROUP_ROWS_MAX
                && let Some(next) = calls.and_then(|calls| self.next(calls, at))
            {
                group.push(next);
            }
        }
        if calls.is_some() {
            self.callers = group.len();
            self.run_offers(group, &mut state)?;
        }
        let GroupState { mut head, due, wake } = state;
        due.save(&self.conn)?;
        // A claim that found nothing writes nothing, not even the time.
        if self.conn.total_changes() != changes {
            head.save(&self.conn)?;
        }
        self.run("COMMIT")?;
        if head.commits != self.commits {
            self.commits = head.commits;
            self.mark.note(head.commits);
        }
        // After the commit and before any answer: what went into a file that is gone is not there.
        self.look();
        match self.health.get() {
            Some(stopped) => Err(Fail::Store(stopped.clone())),
            None => Ok(wake),
        }
    }

    /// The counters, which never go back while the file is open. Nothing is written into a file in which they did: the
    /// mark beside it has to stay ahead of it, so that the next who opens it sees what is lost.
    fn load_head(&mut self) -> Done<Head> {
        let head = Head::load(&self.conn, &*self.clock)?;
        if head.commits >= self.commits {
            return Ok(head);
        }
        let error = StoreError::Broken(
            "its file was overwritten with an older one while it was open; start this program again".into(),
        );
        self.stop(&error);
        Err(Fail::Store(error))
    }

    /// Runs the claims of those who wait for the work that this group brings.
    fn run_offers(&mut self, group: &mut Vec<Box<dyn Call>>, state: &mut GroupState) -> Done<()> {
        let Some(work) = state.wake.clone() else { return Ok(()) };
        for offer in self.wakers.offers(&work) {
            let mut offered = Box::new(Offered::new(offer));
            let done = self.run_one(&mut *offered, false, state);
            // Whatever became of it: it is answered with the others.
            group.push(offered);
            done?;
        }
        Ok(())
    }

    /// The next call, when one waits or is likely to come at once.
    fn next(&self, calls: &Receiver<Box<dyn Call>>, so_far: usize) -> Option<Box<dyn Call>> {
        match calls.try_recv() {
            Ok(call) => Some(call),
            Err(_) if so_far < self.expected => calls.recv_timeout(PATIENCE).ok(),
            Err(_) => None,
        }
    }

    /// Runs one call in a savepoint; the first of a group needs none, since
    /// there is nothing before it to keep. What a call is refused for is its
    /// own affair; an error of this function ends the whole group.
    fn run_one(&mut self, call: &mut dyn Call, first: bool, state: &mut GroupState) -> Done<()> {
        if call.sort() == Sort::Adds && !self.has_room() {
            call.fail(StoreError::CannotWrite(NO_ROOM.into()));
            return Ok(());
        }
        if !first {
            self.run("SAVEPOINT call")?;
        }
        let now = state.head.timekeeper.now(&*self.clock);
        let mut tx = Tx::new(&self.conn, state.head, &mut self.memory, now);
        let done = call.run(&mut tx).and_then(|()| tx.finish());
        match done {
            Ok(finished) => {
                if !first {
                    self.run("RELEASE call")?;
                }
                state.follow(finished);
                Ok(())
            }
            Err(fail) if fail.is_full() || fail.is_fatal() || self.conn.is_autocommit() => Err(fail),
            Err(fail) => {
                self.undo(first)?;
                self.memory.forget();
                if first {
                    // Another process may have written between the two transactions.
                    self.memory.begin();
                    state.head = self.load_head()?;
                }
                call.fail(fail.into_store_error());
                Ok(())
            }
        }
    }

    /// Whether jobs may be added; asked of the disk once for a group.
    fn has_room(&mut self) -> bool {
        *self.room.get_or_insert_with(|| self.ballast.has_room())
    }

    fn undo(&self, first: bool) -> Done<()> {
        let (back, on) =
            if first { ("ROLLBACK", "BEGIN IMMEDIATE") } else { ("ROLLBACK TO call", "RELEASE call") };
        self.run(back)?;
        self.run(on)
    }

    fn run(&self, sql: &'static str) -> Done<()> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            self.stop(&Fail::from(error).into_store_error());
        }
    }

    /// Writes the log back into the file, when it is long. Callers have their
    /// answers by now, so this costs them nothing.
    fn checkpoint(&mut self) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        let Some(mode) = self.checkpoint_mode(pages) else { return };
        let done = self.with_wait(CHECKPOINT_WAIT, |conn| conn.wal_checkpoint_v2(None::<&str>, mode));
        self.checkpoint_at = pages.saturating_add(self.wal_pages_max);
        match done.map_err(Fail::from) {
            Ok((left, written)) if left == written => {
                self.wal_pages.store(0, Ordering::Relaxed);
                self.checkpoint_at = self.wal_pages_max;
            }
            Ok(_) => {}
            Err(fail) if fail.is_fatal() => self.stop(&fail.into_store_error()),
            Err(fail) => tracing::debug!(error = %fail.into_store_error(), "the log stays for now"),
        }
    }

    fn checkpoint_mode(&self, pages: u32) -> Option<CheckpointMode> {
        if self.health.get().is_some() || pages == 0 {
            return None;
        }
        if !self.ballast.is_aboard() {
            // On a full disk the log's own room is worth having, if what it holds fits into the file.
            let fits = self.ballast.free_bytes() >= u64::from(pages) * PAGE_BYTES;
            return fits.then_some(CheckpointMode::TRUNCATE);
        }
        if pages < self.checkpoint_at {
            return None;
        }
        // A reader keeps the log from being begun anew; when it has grown far, wait for that reader.
        let far = pages >= self.wal_pages_max.saturating_mul(4);
        Some(if far { CheckpointMode::TRUNCATE } else { CheckpointMode::PASSIVE })
    }

    fn with_wait<T>(
        &self,
        wait: Duration,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.conn.busy_timeout(wait)?;
        let done = work(&self.conn);
        self.conn.busy_timeout(self.busy)?;
        done
    }
}
