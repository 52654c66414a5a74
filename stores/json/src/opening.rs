//! What opening found, and what it did about it.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::book::layout::{Content, Unreadable};
use windlass_core::error::StoreError;
use windlass_core::time::Clock;
use windlass_core::timekeeper::Timekeeper;

use crate::file::{NotWritten, StoreFile};
use crate::options::{OnDamage, OnOpen, Options};

/// Fences are raised by this when an older copy is taken, so that leases given
/// since that copy stay stale.
const FENCE_LEAP: u64 = 1 << 32;

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
    if ended > 0 || pruned > 0 || begun || matches!(opening, Opening::Restored { .. }) {
        save(file, options, &content)?;
    }
    Ok((content, opening))
}

fn save(file: &StoreFile, options: &Options, content: &Content) -> Result<(), StoreError> {
    let bytes = options.layout.write(content).map_err(StoreError::CannotWrite)?;
    file.write(&bytes).map_err(|not_written| match not_written {
        NotWritten::Refused(why) => StoreError::CannotWrite(why),
        NotWritten::Unsure(why) => StoreError::Broken(why),
    })
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
    mut content: Content,
    file: &StoreFile,
    set_aside: Option<PathBuf>,
    why: String,
) -> Result<(Content, Opening), StoreError> {
    Arc::make_mut(&mut content.book).raise_fences(FENCE_LEAP);
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
