//! Whether a store that is a file is the one that it was, whole: judged from the file and from a mark beside it.
//!
//! A file can be copied, put back, replaced, emptied or cut. It looks as good as before, and what it handed out since
//! is still in the world. So a store keeps a small mark beside its file, which says which file that is, which epoch it
//! was in, and the number of the newest commit. The mark is written after each commit and never waited for: it survives
//! the death of the program, and after the death of the machine it may be behind, which is harmless. A mark that is
//! ahead of its file is the finding: commits are lost.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::epoch::Epoch;
use crate::store::Risk;
use crate::time::Time;

/// Which file this is: what tells it from its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The device that it is on. Numbers of devices may change with a start of the machine.
    pub dev: u64,
    /// Its number on that device, which may be given again when it is deleted.
    pub ino: u64,
    /// When it was made, in nanoseconds; nothing where the file system does not say.
    pub born_ns: Option<i64>,
    /// The start of the machine by which this was seen.
    pub boot: Uuid,
}

impl FileId {
    /// The file of which a look at it told this, in this start of the machine.
    pub fn of(metadata: &Metadata, boot: Uuid) -> Self {
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|born| i64::try_from(born.as_nanos()).ok());
        Self { dev: metadata.dev(), ino: metadata.ino(), born_ns, boot }
    }

    /// Whether two looks were at the same file.
    pub fn is_same(&self, other: &Self) -> bool {
        let born = self.born_ns.zip(other.born_ns);
        let on_same_device = self.dev == other.dev;
        self.ino == other.ino
            && born.map_or(on_same_device, |(one, other)| one == other)
            && (on_same_device || self.boot != other.boot)
    }
}

/// What is written beside a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The file.
    pub file: FileId,
    /// The instance of its epoch.
    pub instance: Uuid,
    /// The number of its epoch.
    pub number: u64,
    /// The floor of its fences.
    pub floor: u64,
    /// The number of the newest commit.
    pub commits: u64,
}

/// How a mark begins.
const FORM: &str = "windlass-mark 1";
/// So many digits of a hash end it.
const SUM_DIGITS: usize = 16;

impl Mark {
    /// How long a mark is, whatever it says: one is written over the other in place.
    pub const BYTES: usize = 256;

    /// As a line of text.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let Self { file: FileId { dev, ino, born_ns, boot }, instance, number, floor, commits } = self;
        let born = born_ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string());
        let said = format!("{FORM} {dev} {ino} {born} {boot} {instance} {number} {floor} {commits}");
        let line = format!("{said} {}", sum(&said));
        let mut bytes = [b' '; Self::BYTES];
        bytes[..line.len()].copy_from_slice(line.as_bytes());
        bytes[Self::BYTES - 1] = b'\n';
        bytes
    }

    /// From a line of text; nothing when it was not written whole.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(bytes.get(..Self::BYTES)?).ok()?.trim_ascii_end();
        let (said, written) = line.rsplit_once(' ')?;
        if written != sum(said) {
            return None;
        }
        let mut words = said.strip_prefix(FORM)?.split_ascii_whitespace();
        let mut word = || words.next();
        Some(Self {
            file: FileId {
                dev: word()?.parse().ok()?,
                ino: word()?.parse().ok()?,
                born_ns: word().filter(|born| *born != "-").map(str::parse).transpose().ok()?,
                boot: word()?.parse().ok()?,
            },
            instance: word()?.parse().ok()?,
            number: word()?.parse().ok()?,
            floor: word()?.parse().ok()?,
            commits: word()?.parse().ok()?,
        })
    }
}

fn sum(said: &str) -> String {
    let mut digits = String::with_capacity(SUM_DIGITS);
    for byte in &Sha256::digest(said.as_bytes())[..SUM_DIGITS / 2] {
        digits.push_str(&format!("{byte:02x}"));
    }
    digits
}

/// What is found at a place where a store is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Here {
    /// The file.
    pub file: FileId,
    /// Which file it says that it is, where it says so.
    pub kept: Option<FileId>,
    /// The epoch that it is in; nothing when it was never in one: it is new, or of a version before epochs.
    pub epoch: Option<Epoch>,
    /// The number of its newest commit.
    pub commits: u64,
}

/// What a look at a file and its mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was never in an epoch, and nothing says otherwise.
    New,
    /// It is what it was.
    Whole,
    /// Its history was cut, and a new epoch begins.
    Cut(Cut),
}

/// How a history was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Another file has the same content: a copy, or a backup that was put back.
    Copied,
    /// Another store is where this one was, or an earlier epoch of it.
    Replaced,
    /// Nothing is left of what it held.
    Emptied,
    /// So many of its newest commits are gone.
    Lost(u64),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copied => f.write_str("the file is a copy, or a backup that was put back"),
            Self::Replaced => {
                f.write_str("the file was replaced by that of another store, or of an earlier time")
            }
            Self::Emptied => f.write_str("the file was emptied, and all that it held is gone"),
            Self::Lost(1) => f.write_str("its newest commit is lost"),
            Self::Lost(commits) => write!(f, "its newest {commits} commits are lost"),
        }
    }
}

/// Judges a file by itself and by the mark beside it, where there is one that can be read.
pub fn judge(mark: Option<&Mark>, here: &Here) -> Verdict {
    let says_so = here.kept.is_some_and(|kept| kept.is_same(&here.file));
    let Some(mark) = mark else {
        return match &here.epoch {
            None => Verdict::New,
            Some(_) if says_so => Verdict::Whole,
            Some(_) => Verdict::Cut(Cut::Copied),
        };
    };
    let Some(epoch) = &here.epoch else {
        return Verdict::Cut(if here.commits == 0 { Cut::Emptied } else { Cut::Replaced });
    };
    if epoch.instance != mark.instance {
        // Whoever began this epoch may have died before the mark was written.
        let is_behind = epoch.number > mark.number && says_so;
        return if is_behind { Verdict::Whole } else { Verdict::Cut(Cut::Replaced) };
    }
    if here.commits < mark.commits {
        return Verdict::Cut(Cut::Lost(mark.commits - here.commits));
    }
    // A file that is another after each commit does not say which it is, and the mark may be behind it.
    let known = here.kept.or((here.commits == mark.commits).then_some(mark.file));
    let is_same = known.is_none_or(|known| known.is_same(&here.file));
    if is_same { Verdict::Whole } else { Verdict::Cut(Cut::Copied) }
}

/// The epoch after whatever a file and its mark know of.
pub fn turned(mark: Option<&Mark>, last: Option<Epoch>, next: impl FnOnce(&Epoch) -> Epoch) -> Epoch {
    // A file without an epoch was in its first, which began before all time.
    let mut last = last.unwrap_or_default();
    if let Some(mark) = mark {
        last.number = last.number.max(mark.number);
        last.floor = last.floor.max(mark.floor);
    }
    next(&last)
}

/// For so long people are told that a history was cut.
const TOLD_MS: u64 = 86_400_000;

/// What people are told of an epoch that began because the history of a file was cut.
pub fn risk(epoch: &Epoch, now: Time) -> Option<Risk> {
    let is_told = epoch.lossy && now.ms_since(epoch.began_at) < TOLD_MS;
    is_told.then(|| {
        let what = format!(
            "the store's file was copied, put back, replaced or emptied, or has lost its newest commits; this was noticed \
             when it was opened at {} (epoch {}). What was accepted or finished in what is lost is not known here",
            epoch.began_at, epoch.number
        );
        let next = "the log of the program that opened it says how it was found; enqueue again what callers miss: jobs with \
                    the same ids are taken once. Jobs that had finished since a backup run once more";
        Risk::new(what, next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { dev: 5, ino: 77, born_ns: Some(-12), boot: Uuid::from_u128(1) };

    fn mark() -> Mark {
        Mark { file: FILE, instance: Uuid::from_u128(9), number: 3, floor: 1 << 52, commits: 40 }
    }

    fn epoch(number: u64, instance: u128) -> Option<Epoch> {
        Some(Epoch { number, instance: Uuid::from_u128(instance), ..Epoch::default() })
    }

    #[test]
    fn a_mark_reads_back_and_a_torn_one_is_none() {
        let longest = Mark {
            file: FileId { dev: u64::MAX, ino: u64::MAX, born_ns: Some(i64::MIN), boot: Uuid::max() },
            instance: Uuid::max(),
            number: u64::MAX,
            floor: u64::MAX,
            commits: u64::MAX,
        };
        for mark in [mark(), longest, Mark { file: FileId { born_ns: None, ..FILE }, ..mark() }] {
            let bytes = mark.to_bytes();
            assert_eq!(Mark::read(&bytes), Some(mark));
            assert_eq!(Mark::read(&bytes[..Mark::BYTES - 1]), None);
            for at in (0..bytes.len()).filter(|at| bytes[*at] != b' ' && bytes[*at] != b'\n') {
                let mut torn = bytes;
                torn[at] ^= 1;
                assert_eq!(Mark::read(&torn), None, "byte {at}");
            }
        }
        assert_eq!(Mark::read(&[0; Mark::BYTES]), None);
        assert_eq!(Mark::read(b""), None);
    }

    #[test]
    fn a_file_is_known_by_its_birth_and_numbers_of_devices_may_change_with_a_start() {
        let rebooted = FileId { dev: 6, boot: Uuid::from_u128(2), ..FILE };
        assert!(FILE.is_same(&FILE) && FILE.is_same(&rebooted));
        assert!(!FILE.is_same(&FileId { dev: 6, ..FILE }), "the same start of the machine");
        assert!(!FILE.is_same(&FileId { ino: 78, ..FILE }));
        assert!(!FILE.is_same(&FileId { born_ns: Some(0), ..FILE }), "a number that was given again");
        let untold = FileId { born_ns: None, ..FILE };
        assert!(untold.is_same(&untold) && !untold.is_same(&FileId { born_ns: None, ..rebooted }));
    }

    #[test]
    fn what_a_file_and_its_mark_say() {
        let other = FileId { ino: 78, ..FILE };
        let here = |epoch, kept, commits| Here { file: FILE, kept, epoch, commits };
        let this = |commits| here(epoch(3, 9), Some(FILE), commits);
        let unmarked = [
            (here(None, None, 0), Verdict::New),
            (here(None, None, 12), Verdict::New),
            (this(1), Verdict::Whole),
            (here(epoch(3, 9), Some(other), 40), Verdict::Cut(Cut::Copied)),
            (here(epoch(3, 9), None, 40), Verdict::Cut(Cut::Copied)),
        ];
        for (here, verdict) in unmarked {
            assert_eq!(judge(None, &here), verdict, "{here:?}");
        }
        let marked = [
            (this(40), Verdict::Whole),
            (this(41), Verdict::Whole),
            (this(39), Verdict::Cut(Cut::Lost(1))),
            (here(None, None, 0), Verdict::Cut(Cut::Emptied)),
            (here(None, None, 7), Verdict::Cut(Cut::Replaced)),
            (here(epoch(3, 9), Some(other), 40), Verdict::Cut(Cut::Copied)),
            (here(epoch(3, 8), Some(FILE), 99), Verdict::Cut(Cut::Replaced)),
            (here(epoch(2, 8), Some(FILE), 99), Verdict::Cut(Cut::Replaced)),
            (here(epoch(4, 8), Some(FILE), 41), Verdict::Whole),
            (here(epoch(4, 8), Some(other), 41), Verdict::Cut(Cut::Replaced)),
            // A file that does not say which it is: the mark does, unless it is behind.
            (here(epoch(3, 9), None, 40), Verdict::Whole),
            (Here { file: other, ..here(epoch(3, 9), None, 40) }, Verdict::Cut(Cut::Copied)),
            (Here { file: other, ..here(epoch(3, 9), None, 41) }, Verdict::Whole),
        ];
        for (here, verdict) in marked {
            assert_eq!(judge(Some(&mark()), &here), verdict, "{here:?}");
        }
    }

    #[test]
    fn people_are_told_for_a_day() {
        let now = Time::from_ms(1_800_000_000_000);
        let epoch = Epoch::default().next(Uuid::nil(), 0, 0, true, now);
        assert!(risk(&epoch, now.plus_ms(80_000_000)).is_some_and(|risk| risk.what.contains("epoch 2")));
        assert_eq!(risk(&epoch, now.plus_ms(90_000_000)), None);
        assert_eq!(risk(&Epoch::default(), now), None);
    }

    #[test]
    fn an_epoch_is_after_all_that_is_known() {
        let next = |last: &Epoch| last.next(Uuid::nil(), 0, 0, true, Time::MIN);
        let from_both = turned(Some(&mark()), epoch(2, 8), next);
        assert!(from_both.number == 4 && from_both.floor > mark().floor);
        assert_eq!(turned(None, epoch(2, 8), next).number, 3);
        assert_eq!(turned(Some(&mark()), None, next).number, 4);
        assert_eq!(turned(None, None, next).number, 2, "a clock that steps moves its pause");
    }
}
