//! What opening a file finds: whether it is the one that it was, whole (`windlass_core::incarnation`), and what follows.

use std::path::Path;

use rusqlite::Connection;
use uuid::Uuid;
use windlass_core::epoch::{Epoch, lifted};
use windlass_core::error::StoreError;
use windlass_core::incarnation::{Cut, FileId, Here, Mark, Verdict, judge, turned};

use crate::disk::log::Log;
use crate::disk::mark::{self, MarkFile, beside};
use crate::fail::{Done, Fail};
use crate::options::Options;
use crate::rows::epoch::{self, Kept, pause_ms_max};
use crate::rows::head::Head;
use crate::verbs::audit;

/// How many contradictions are named in an error.
const BREACHES_NAMED: usize = 3;

/// Refuses to make an empty file where a store has been: somebody would take it for the store.
pub fn refuse_to_start_empty(path: &Path) -> Result<(), StoreError> {
    let is_there = path.try_exists().unwrap_or(true);
    let Some(found) = mark::look(path).filter(|found| !is_there && found.commits > 0) else { return Ok(()) };
    let Mark { commits, instance, .. } = found;
    Err(StoreError::Broken(format!(
        "{file} is gone, and {mark} says that a store was there ({commits} commits, instance {instance}). Put the file \
         back, or a backup of it; to begin an empty store instead, delete {mark}",
        file = path.display(),
        mark = mark::path_of(path).display()
    )))
}

/// Judges the file under the lock of its mark, and begins an epoch if need be. Afterwards the mark is that of this file.
pub fn settle(conn: &Connection, path: &Path, options: &Options) -> Done<MarkFile> {
    let mut beside = MarkFile::open(path)?;
    let alone = beside.is_alone()?;
    if !alone {
        beside.share()?;
    }
    // Before the file is read: whoever writes to it meanwhile commits first.
    let found = beside.read()?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let begun = Opening { conn, path, options, alone, found }.begin();
    let begun = begun.and_then(|mark| conn.execute_batch("COMMIT").map(|()| mark).map_err(Fail::from));
    let mark = match begun {
        Ok(mark) => mark,
        Err(fail) => {
            if !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK")?;
            }
            return Err(fail);
        }
    };
    beside.write(mark)?;
    if alone {
        beside.share()?;
    }
    Ok(beside)
}

struct Opening<'a> {
    conn: &'a Connection,
    path: &'a Path,
    options: &'a Options,
    /// No other process has the file open.
    alone: bool,
    found: Option<Mark>,
}

impl Opening<'_> {
    /// Begins the store's time, or goes on with it, and so its epoch. Answers what the mark has to say.
    fn begin(&self) -> Done<Mark> {
        let clock = &*self.options.clock;
        let was_there = self.conn.prepare(sql!("head", "is_there"))?.exists([])?;
        let mut head = Head::load(self.conn, clock)?;
        let file = mark::id_of(self.path, clock.boot_id())
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", self.path.display())))?;
        let kept = Kept::load(self.conn)?;
        let here = Here {
            file,
            kept: kept.map(|kept| kept.file),
            epoch: kept.map(|kept| kept.epoch),
            // A file of a version before epochs has counted none.
            commits: if was_there { head.commits.max(1) } else { 0 },
        };
        let kept = match (judge(self.found.as_ref(), &here), kept) {
            (Verdict::Whole, Some(kept)) if self.alone => self.lift(kept, file, &mut head)?,
            (Verdict::Whole, Some(kept)) => kept,
            (Verdict::New | Verdict::Whole, _) => self.first(file, &mut head)?,
            (Verdict::Cut(_), _) if !self.alone => return Err(in_use(self.path).into()),
            (Verdict::Cut(cut), kept) => self.turn(cut, kept, file, &mut head)?,
        };
        head.save(self.conn)?;
        let Epoch { number, instance, floor, .. } = kept.epoch;
        Ok(Mark { file, instance, number, floor, commits: head.commits })
    }

    fn first(&self, file: FileId, head: &mut Head) -> Done<Kept> {
        let epoch = Epoch::first(instance()?);
        let kept = Kept { epoch, pause_ms_max: pause_ms_max(self.options.pause_ms_max), file };
        kept.save(self.conn, head)?;
        Ok(kept)
    }

    /// Lifts the floor of all fences: a snapshot of a disk comes back with its mark.
    fn lift(&self, mut kept: Kept, file: FileId, head: &mut Head) -> Done<Kept> {
        let now = head.timekeeper.now(&*self.options.clock);
        let known = kept.epoch.floor.max(self.found.map_or(0, |mark| mark.floor));
        kept.epoch.floor = lifted(known, chance()?, now);
        kept.file = file;
        kept.save(self.conn, head)?;
        Ok(kept)
    }

    /// Begins a new epoch, of what is whole in itself.
    fn turn(&self, cut: Cut, kept: Option<Kept>, file: FileId, head: &mut Head) -> Done<Kept> {
        let log = match cut {
            Cut::Lost(_) | Cut::Emptied => format!(". {}", Log::read(&beside(self.path, "-wal")).describe()),
            Cut::Copied | Cut::Replaced => String::new(),
        };
        self.refuse_contradictions(cut, &log)?;
        let (now, first_seq) = (head.timekeeper.now(&*self.options.clock), head.next_seq);
        let (instance, chance) = (instance()?, chance()?);
        let epoch = turned(self.found.as_ref(), kept.map(|kept| kept.epoch), |last| {
            last.next(instance, chance, first_seq, true, now)
        });
        let kept = Kept { epoch, pause_ms_max: pause_ms_max(self.options.pause_ms_max), file };
        epoch::enter(self.conn, head, &kept)?;
        tracing::error!(
            file = %self.path.display(),
            epoch = epoch.number,
            "{cut}{log}. A new epoch begins: what was accepted or finished since is not known here, and jobs that \
             somebody may hold by it are held back until their longest lease has run out"
        );
        Ok(kept)
    }

    fn refuse_contradictions(&self, cut: Cut, log: &str) -> Done<()> {
        let breaches = audit::whole(self.conn)?;
        if breaches.is_empty() {
            return Ok(());
        }
        let named = breaches.iter().take(BREACHES_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
        Err(StoreError::Broken(format!(
            "{}: {cut}{log}. What is left contradicts itself ({named}), so nothing was touched. Restore a backup that was \
             made by `.backup`, `VACUUM INTO` or a copy after a clean stop",
            self.path.display()
        ))
        .into())
    }
}

fn in_use(path: &Path) -> StoreError {
    StoreError::InUse(format!(
        "{} is not the file that another process has open by this name; stop that process first",
        path.display()
    ))
}

fn instance() -> Result<Uuid, StoreError> {
    Ok(Uuid::from_u64_pair(chance()?, chance()?))
}

fn chance() -> Result<u64, StoreError> {
    getrandom::u64()
        .map_err(|error| StoreError::Unavailable(format!("the machine gives no random numbers: {error}")))
}
