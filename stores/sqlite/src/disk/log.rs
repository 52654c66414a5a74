//! The write-ahead log as it lies on the disk, read without SQLite: how far it can be read, and what lies behind that.
//!
//! A program that was killed, or a machine that lost its power, leaves a torn tail: what follows the last whole commit is
//! at most one commit that was never answered, since each is durable before the next is begun. Where whole commits
//! follow, the log was damaged.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const HEADER_BYTES: usize = 32;
const FRAME_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;

/// What a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// There is none, or an empty one.
    Absent,
    /// It cannot be read at all.
    Unreadable,
    /// So many of its commits can be read.
    Readable {
        /// From the first on, without a gap.
        commits: u64,
        /// So many ends of commits of the same log lie behind what can be read.
        behind: u64,
    },
}

impl Log {
    /// What is to be said of a log when commits are lost.
    pub fn describe(self) -> String {
        match self {
            Self::Absent => "Its log (-wal) is gone or empty".to_owned(),
            Self::Unreadable => "The beginning of its log (-wal) is damaged".to_owned(),
            Self::Readable { commits, behind: 0 } => format!("Its log (-wal) ends after {commits} commits"),
            Self::Readable { commits, behind } => {
                format!(
                    "Its log (-wal) is damaged after {commits} commits: {behind} that follow cannot be read"
                )
            }
        }
    }

    /// Reads a log.
    pub fn read(path: &Path) -> Self {
        File::open(path).map_or(Self::Absent, |file| Self::scan(BufReader::with_capacity(1 << 16, file)))
    }

    fn scan(mut log: impl Read) -> Self {
        let mut header = [0; HEADER_BYTES];
        match fill(&mut log, &mut header) {
            0 => return Self::Absent,
            HEADER_BYTES => {}
            _ => return Self::Unreadable,
        }
        let (magic, page_bytes) = (word(&header, 0), word(&header, 2) as usize);
        let mut sum = Sum { big_endian: magic & 1 == 1, sums: (0, 0) };
        sum.add(&header[..24]);
        let is_whole = magic | 1 == MAGIC | 1 && sum.sums == (word(&header, 6), word(&header, 7));
        if !is_whole || !(512..=65_536).contains(&page_bytes) {
            return Self::Unreadable;
        }
        let salts = (word(&header, 4), word(&header, 5));
        let (mut commits, mut behind, mut readable) = (0, 0, true);
        let mut frame = vec![0; FRAME_BYTES + page_bytes];
        while fill(&mut log, &mut frame) == frame.len() {
            if (word(&frame, 2), word(&frame, 3)) != salts {
                // Of the log that was here before, or damaged.
                readable = false;
                continue;
            }
            if readable {
                sum.add(&frame[..8]);
                sum.add(&frame[FRAME_BYTES..]);
                readable = sum.sums == (word(&frame, 4), word(&frame, 5));
            }
            if word(&frame, 1) != 0 {
                *(if readable { &mut commits } else { &mut behind }) += 1;
            }
        }
        Self::Readable { commits, behind }
    }
}

/// The sum over a log, from its beginning on.
struct Sum {
    big_endian: bool,
    sums: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (mut one, mut two) = self.sums;
        let read = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        for pair in bytes.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *pair;
            one = one.wrapping_add(read([a, b, c, d])).wrapping_add(two);
            two = two.wrapping_add(read([e, f, g, h])).wrapping_add(one);
        }
        self.sums = (one, two);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at * 4..at * 4 + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// Reads as much as there is.
fn fill(log: &mut impl Read, into: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < into.len() {
        match log.read(&mut into[filled..]) {
            Ok(0) | Err(_) => break,
            Ok(read) => filled += read,
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A log of so many commits, as SQLite writes it.
    fn log_of(commits: u32) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let conn = Connection::open(&path).expect("a database");
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)")
            .expect("a table");
        for number in 1..commits {
            conn.execute("INSERT INTO t VALUES (?1)", [number]).expect("a row");
        }
        std::fs::read(folder.path().join("a.db-wal")).expect("its log")
    }

    #[test]
    fn a_torn_tail_is_told_from_a_damaged_log() {
        let whole = log_of(8);
        let page = FRAME_BYTES + 4_096;
        let readable = |commits, behind| Log::Readable { commits, behind };
        let read = |bytes: &[u8]| Log::scan(bytes);
        assert_eq!(read(&whole), readable(8, 0));
        assert_eq!(read(&whole[..whole.len() - 5]), readable(7, 0), "torn");
        assert_eq!(read(&whole[..whole.len() - 3 * page]), readable(5, 0), "cut");
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            read(&bytes)
        };
        assert_eq!(flipped(whole.len() - 1), readable(7, 1), "the end of the last");
        assert_eq!(flipped(whole.len() - 2 * page - 9), readable(5, 3), "in the middle");
        assert_eq!(flipped(9), Log::Unreadable);
        assert_eq!(read(b""), Log::Absent);
        assert_eq!(read(&whole[..20]), Log::Unreadable);
    }
}
