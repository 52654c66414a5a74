//! What opening found, and what it did about it.

use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::book::layout::{Content, Unreadable};
use windlass_core::epoch::Epoch;
use windlass_core::error::StoreError;
use windlass_core::incarnation::{Cut, Here, Mark, Verdict, judge, turned};
use windlass_core::time::{Clock, Time};
use windlass_core::timekeeper::Timekeeper;

use crate::file::{NotWritten, StoreFile};
use crate::mark::{self, MarkFile};
use crate::options::{OnDamage, OnOpen, Options};

/// What was found when the store was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// No file: an empty store.
    Fresh,
    /// The file, whole.
    Loaded,
    /// The file could not be read, or was gone; the copy before it was taken.
    /// What was written after that copy is lost.
    Restored {
        /// Where the file that could not be read is now; nothing when it was gone.
        set_aside: Option<PathBuf>,
        /// The copy that was taken.
        copy: PathBuf,
        /// What was wrong with the file.
        why: String,
    },
    /// The file could not be read and was set aside; an empty one is begun.
    Anew {
        /// Where the file that could not be read is now.
        set_aside: PathBuf,
        /// What was wrong with the file.
        why: String,
    },
}

/// Reads the store, and brings it up to the present.
pub fn load(file: &StoreFile, options: &Options) -> Result<(Content, Opening), StoreError> {
    if file.is_read_only() {
        let path = file.path().display();
        return Err(StoreError::CannotWrite(format!("{path} is read-only; allow its owner to write it")));
    }
    let (mut content, opening) = find(file, options)?;
    let oldest =
        options.age_ms_max.map(|ms| options.clock.wall().plus_ms(-i64::try_from(ms).unwrap_or(i64::MAX)));
    if let Err(error) = file.prune_aside(oldest) {
        tracing::warn!(%error, "what was set aside could not be pruned");
    }
    let newest = content.saved_at.unwrap_or(windlass_core::time::Time::MIN);
    let clock: &dyn Clock = options.clock.as_ref();
    let timekeeper = match content.timekeeper {
        Some(saved) => Timekeeper::resume(saved, newest, clock),
        None => Timekeeper::begin(clock),
    };
    content.timekeeper = Some(timekeeper);
    let cut = begin(&mut content, &opening, file, options, timekeeper.now(clock))?;
    let ended = match options.on_open {
        OnOpen::Resume => 0,
        OnOpen::FailUnfinished => Arc::make_mut(&mut content.book).end_by_restart(timekeeper.now(clock)),
    };
    let pruned = options.age_ms_max.map_or(0, |ms| {
        let oldest = timekeeper.now(clock).plus_ms(-i64::try_from(ms).unwrap_or(i64::MAX));
        Arc::make_mut(&mut content.book).prune_accepted_before(oldest)
    });
    // Whoever begins anew after damage says where the old file went by the new one's being there.
    let begun = options.on_damage == OnDamage::BeginAnew && !matches!(opening, Opening::Loaded);
    if ended > 0 || pruned > 0 || begun || cut {
        content.writes += 1;
        save(file, options, &content)?;
    }
    Ok((content, opening))
}

/// Names a store that is new, lifts the floor of all fences, or begins an epoch when the history was cut; answers
/// whether it was.
fn begin(
    content: &mut Content,
    opening: &Opening,
    file: &StoreFile,
    options: &Options,
    now: Time,
) -> Result<bool, StoreError> {
    let keeps_epochs = options.layout.keeps_epochs();
    let mark = if keeps_epochs { mark::look(&file.mark()) } else { None };
    let verdict = match opening {
        Opening::Restored { .. } => Verdict::Cut(Cut::Lost(1)),
        Opening::Fresh if mark.is_some() => return Err(gone(file)),
        _ if !keeps_epochs => Verdict::New,
        _ => judge(mark.as_ref(), &here(content, file, options)?),
    };
    let book = Arc::make_mut(&mut content.book);
    if let Some(ms) = options.pause_ms_max {
        book.set_pause_max(ms);
    }
    match verdict {
        Verdict::New => {
            book.begin(instance()?);
            if !matches!(opening, Opening::Fresh | Opening::Anew { .. }) {
                book.lift(chance()?, now);
            }
        }
        // A snapshot of a disk comes back with its mark.
        Verdict::Whole => book.lift(chance()?, now),
        Verdict::Cut(cut) => turn(book, cut, mark.as_ref(), file, now)?,
    }
    Ok(matches!(verdict, Verdict::Cut(_)))
}

fn here(content: &Content, file: &StoreFile, options: &Options) -> Result<Here, StoreError> {
    let epoch = *content.book.epoch();
    let id = mark::id_of(file.path(), options.clock.boot_id()).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(mark::NOWHERE),
        _ => Err(StoreError::Unavailable(format!("{}: {error}", file.path().display()))),
    });
    let was_in_one = !epoch.instance.is_nil();
    Ok(Here { file: id?, kept: None, epoch: was_in_one.then_some(epoch), commits: content.writes })
}

fn turn(
    book: &mut Book,
    cut: Cut,
    mark: Option<&Mark>,
    file: &StoreFile,
    now: Time,
) -> Result<(), StoreError> {
    let (instance, chance) = (instance()?, chance()?);
    let last = Some(*book.epoch()).filter(|epoch| !epoch.instance.is_nil());
    let epoch = turned(mark, last, |last: &Epoch| last.next(instance, chance, 0, true, now));
    book.enter(epoch);
    tracing::error!(
        file = %file.path().display(),
        epoch = epoch.number,
        "{cut}. A new epoch begins: what was accepted or finished since is not known here, and jobs that somebody may \
         hold by it are held back until their longest lease has run out"
    );
    Ok(())
}

/// Never makes an empty document where a store has been: somebody would take it for the store.
fn gone(file: &StoreFile) -> StoreError {
    StoreError::Broken(format!(
        "{path} is gone, and {mark} says that a store was there. Put the file back, or a backup of it; to begin an \
         empty store instead, delete {mark}",
        path = file.path().display(),
        mark = file.mark().display()
    ))
}

fn instance() -> Result<Uuid, StoreError> {
    Ok(Uuid::from_u64_pair(chance()?, chance()?))
}

fn chance() -> Result<u64, StoreError> {
    getrandom::u64()
        .map_err(|error| StoreError::Unavailable(format!("the machine gives no random numbers: {error}")))
}

fn save(file: &StoreFile, options: &Options, content: &Content) -> Result<(), StoreError> {
    let bytes = options.layout.write(content).map_err(StoreError::CannotWrite)?;
    file.write(&bytes).map_err(|not_written| match not_written {
        NotWritten::Refused(why) => StoreError::CannotWrite(why),
        NotWritten::Unsure(why) => StoreError::Broken(why),
    })?;
    if options.layout.keeps_epochs() {
        MarkFile::new(file, options.clock.boot_id()).note(content.book.epoch(), content.writes);
    }
    Ok(())
}

fn find(file: &StoreFile, options: &Options) -> Result<(Content, Opening), StoreError> {
    if options.on_damage == OnDamage::BeginAnew {
        return find_or_begin(file, options);
    }
    match read(file.path(), options)? {
        Found::Whole(content) => Ok((*content, Opening::Loaded)),
        Found::Nothing => match read(&file.previous(), options)? {
            Found::Nothing => Ok((Content::default(), Opening::Fresh)),
            Found::Whole(content) => restored(*content, file, None, "it is gone".to_owned()),
            Found::Damaged(why) => Err(hopeless(file, &format!("it is gone, and of its copy {why}"))),
        },
        Found::Damaged(why) => match read(&file.previous(), options)? {
            Found::Whole(content) => {
                let aside = set_aside(file, options)?;
                restored(*content, file, Some(aside), why)
            }
            Found::Nothing => Err(hopeless(file, &format!("{why}, and there is no copy"))),
            Found::Damaged(_) => Err(hopeless(file, &format!("{why}, and its copy is damaged too"))),
        },
    }
}

fn find_or_begin(file: &StoreFile, options: &Options) -> Result<(Content, Opening), StoreError> {
    match read(file.path(), options)? {
        Found::Whole(content) => Ok((*content, Opening::Loaded)),
        Found::Nothing => Ok((Content::default(), Opening::Fresh)),
        Found::Damaged(why) => {
            let set_aside = set_aside(file, options)?;
            tracing::error!(
                file = %file.path().display(),
                set_aside = %set_aside.display(),
                why,
                "the file could not be read; it was set aside and a new one is begun"
            );
            Ok((Content::default(), Opening::Anew { set_aside, why }))
        }
    }
}

fn set_aside(file: &StoreFile, options: &Options) -> Result<PathBuf, StoreError> {
    file.set_aside(options.clock.wall()).map_err(|error| {
        StoreError::CannotWrite(format!("{} cannot be set aside: {error}", file.path().display()))
    })
}

fn restored(
    content: Content,
    file: &StoreFile,
    set_aside: Option<PathBuf>,
    why: String,
) -> Result<(Content, Opening), StoreError> {
    let copy = file.previous();
    tracing::error!(
        file = %file.path().display(),
        set_aside = set_aside.as_ref().map(|aside| aside.display().to_string()),
        copy = %copy.display(),
        why,
        "the store's file could not be read; the copy before it was taken, and what was written since is lost"
    );
    Ok((content, Opening::Restored { set_aside, copy, why }))
}

/// Never starts empty where something was: that is for a person to decide.
fn hopeless(file: &StoreFile, why: &str) -> StoreError {
    let path = file.path().display();
    StoreError::Broken(format!(
        "{path} cannot be read: {why}. Nothing was touched. Put a backup in its place, \
         or move it and its .1 away to start empty"
    ))
}

enum Found {
    Nothing,
    Whole(Box<Content>),
    Damaged(String),
}

fn read(path: &std::path::Path, options: &Options) -> Result<Found, StoreError> {
    let bytes = StoreFile::read(path)
        .map_err(|error| StoreError::Unavailable(format!("{} cannot be read: {error}", path.display())))?;
    let Some(bytes) = bytes else { return Ok(Found::Nothing) };
    match options.layout.read(&bytes) {
        Ok(content) => Ok(Found::Whole(Box::new(content))),
        Err(Unreadable::Damaged(why)) => Ok(Found::Damaged(why)),
        Err(Unreadable::Foreign(why)) => {
            Err(StoreError::Schema(format!("{} was left as it is: {why}", path.display())))
        }
    }
}
