//! Files that are not what they were: copied, put back, replaced, emptied, cut, moved away under a running store. Each is
//! noticed, and none is started as if nothing had been.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use windlass_core::error::StoreError;
use windlass_core::incarnation::Mark;
use windlass_core::store::{EpochStatus, Source, Store};
use windlass_sqlite::SqliteStore;
use windlass_testkit::clock::FakeClock;
use windlass_testkit::eventually::eventually;

use crate::crash_points::abort;
use crate::scene::{claim, done, id, job, open, options};

/// A folder with a store that was killed: everything is in its log.
struct Killed {
    _folder: tempfile::TempDir,
    path: PathBuf,
    clock: FakeClock,
}

impl Killed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w.db");
        abort(&path, 20);
        assert!(fs::metadata(beside(&path, "-wal")).expect("a log").len() > 100_000);
        Self { _folder: folder, path, clock: FakeClock::default() }
    }

    async fn epoch(&self) -> EpochStatus {
        open(&self.path, &self.clock).await.epoch().await.expect("epoch")
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("a file");
}

/// A program that was killed lost nothing: its torn tail is not taken for damage.
#[tokio::test]
async fn a_killed_program_cuts_no_history() {
    let killed = Killed::new();
    change(&beside(&killed.path, "-wal"), |log| {
        let torn = log[log.len() - 4_120..log.len() - 100].to_vec();
        log.extend(torn);
    });
    let store = open(&killed.path, &killed.clock).await;
    let epoch = store.epoch().await.expect("epoch").epoch;
    assert_eq!((epoch.number, epoch.lossy), (1, false));
    assert!(epoch.floor > 0, "each start lifts the floor");
    assert!(store.get(id(20)).await.expect("get").is_some());
}

/// A log that was deleted, cut or damaged has lost commits that were answered.
#[tokio::test]
async fn a_log_that_has_lost_commits_is_a_new_epoch() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("deleted", |log| fs::remove_file(log).expect("a log")),
        ("emptied", |log| fs::write(log, b"").expect("a log")),
        ("cut", |log| change(log, |bytes| bytes.truncate(bytes.len() / 2))),
        ("flipped", |log| change(log, |bytes| bytes[100_000] ^= 8)),
        ("beheaded", |log| change(log, |bytes| bytes[17] ^= 1)),
    ];
    for (harm, on) in harms {
        let killed = Killed::new();
        let mark =
            Mark::read(&fs::read(beside(&killed.path, "-mark")).expect("a mark")).expect("a whole mark");
        on(&beside(&killed.path, "-wal"));
        let status = killed.epoch().await;
        assert_eq!((status.epoch.number, status.epoch.lossy), (2, true), "{harm}");
        assert!(status.epoch.floor > mark.floor && status.epoch.instance != mark.instance, "{harm}");
        // It is said once: the next start finds what this one left.
        assert_eq!(killed.epoch().await.epoch.number, 2, "{harm}");
        let store = open(&killed.path, &killed.clock).await;
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new(), "{harm}");
        store.enqueue(vec![job(99, 10)]).await.expect("it goes on");
    }
}

/// A file that was emptied is no new store, and one that is gone is not made anew.
#[tokio::test]
async fn a_file_that_is_empty_or_gone_is_not_a_new_store() {
    let killed = Killed::new();
    fs::remove_file(beside(&killed.path, "-wal")).expect("a log");
    fs::write(&killed.path, b"").expect("a file");
    let status = killed.epoch().await;
    assert_eq!((status.epoch.number, status.epoch.lossy), (2, true));

    fs::remove_file(&killed.path).expect("a file");
    for _ in 0..2 {
        let refused =
            SqliteStore::open_with(&killed.path, options(&killed.clock)).await.err().expect("a refusal");
        assert!(
            matches!(refused, StoreError::Broken(_)) && refused.to_string().contains("w.db-mark"),
            "{refused}"
        );
        assert!(!killed.path.exists(), "nothing was made");
    }
    fs::remove_file(beside(&killed.path, "-mark")).expect("a mark");
    assert_eq!(killed.epoch().await.epoch.number, 1, "somebody has decided to begin anew");
}

/// After a clean stop the file is all there is: a copy of it is the whole store, in a new epoch. The original goes on.
#[tokio::test]
async fn a_copy_is_whole_and_a_new_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("w.db"), folder.path().join("copy.db"));
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    store.enqueue((1..=50).map(|n| job(n, 10)).collect()).await.expect("jobs");
    let held = claim(&store, 1, 1).await;
    drop(store);
    let left: Vec<PathBuf> = ["-wal", "-shm"].map(|ending| beside(&path, ending)).into();
    assert!(left.iter().all(|file| !file.exists()), "one file is left");
    fs::copy(&path, &copy).expect("a copy");
    for with_mark in [false, true] {
        if with_mark {
            fs::copy(&path, &copy).expect("a copy");
            fs::copy(beside(&path, "-mark"), beside(&copy, "-mark")).expect("a copy");
        }
        let other = open(&copy, &clock).await;
        let epoch = other.epoch().await.expect("epoch").epoch;
        assert_eq!((epoch.number, epoch.lossy), (2, true));
        assert!(claim(&other, 2, 9).await.is_empty(), "whoever runs the original may have them");
        assert!(other.get(id(50)).await.expect("get").is_some());
        drop(other);
    }
    clock.advance(30_000);
    let other = open(&copy, &clock).await;
    let (ours, theirs) = (open(&path, &clock).await, claim(&other, 3, 9).await);
    let epoch = ours.epoch().await.expect("epoch").epoch;
    assert_eq!((epoch.number, epoch.lossy), (1, false));
    let mine = claim(&ours, 3, 9).await;
    assert_eq!(mine.len(), 9);
    assert!(mine.iter().all(|one| theirs.iter().all(|other| one.job.fence != other.job.fence)));
    assert_eq!(ours.settle(vec![done(&held[0])]).await.expect("settle").len(), 1);
}

/// An older file in the place of a newer one, by whatever way it came there.
#[tokio::test]
async fn a_backup_that_is_put_back_is_a_new_epoch() {
    type Restore = fn(&Path, &Path);
    let ways: [(&str, Restore); 3] = [
        ("cp over it", |backup, path| {
            fs::copy(backup, path).expect("a copy");
        }),
        ("mv", |backup, path| fs::rename(backup, path).expect("a move")),
        ("rm, cp", |backup, path| {
            fs::remove_file(path).expect("a file");
            fs::copy(backup, path).expect("a copy");
        }),
    ];
    for (way, restore) in ways {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, backup) = (folder.path().join("w.db"), folder.path().join("backup.db"));
        let clock = FakeClock::default();
        let store = open(&path, &clock).await;
        store.enqueue(vec![job(1, 10), job(2, 10)]).await.expect("jobs");
        Connection::open(&path)
            .and_then(|conn| conn.execute("VACUUM INTO ?1", [backup.to_str()]).map(drop))
            .expect("a backup of a store that is open");
        let lost = claim(&store, 1, 1).await;
        store.enqueue(vec![job(3, 10)]).await.expect("a job");
        drop(store);
        restore(&backup, &path);
        let store = open(&path, &clock).await;
        let epoch = store.epoch().await.expect("epoch").epoch;
        assert_eq!((epoch.number, epoch.lossy), (2, true), "{way}");
        assert!(store.get(id(3)).await.expect("get").is_none(), "{way}: it came after the backup");
        assert!(claim(&store, 2, 9).await.is_empty(), "{way}");
        clock.advance(30_000);
        let again = claim(&store, 3, 9).await;
        assert_eq!(again.len(), 2, "{way}");
        assert!(again.iter().all(|lease| lease.job.fence > lost[0].job.fence), "{way}");
        let late = store.settle(vec![done(&lost[0])]).await.expect("settle");
        assert_eq!(late, [windlass_core::store::Written::Lost], "{way}");
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new(), "{way}");
    }
}

/// The file of another store, or of an older version, in the place of this one.
#[tokio::test]
async fn a_file_of_another_store_is_a_new_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, other) = (folder.path().join("w.db"), folder.path().join("other.db"));
    let clock = FakeClock::default();
    for path in [&path, &other] {
        open(path, &clock).await.enqueue(vec![job(1, 10)]).await.expect("a job");
    }
    fs::rename(&other, &path).expect("a move");
    let epoch = open(&path, &clock).await.epoch().await.expect("epoch").epoch;
    assert_eq!((epoch.number, epoch.lossy), (2, true));
}

/// A store without its mark, or under another name, is the one that it was.
#[tokio::test]
async fn a_file_that_moves_stays_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("w.db"), folder.path().join("moved.db"));
    let clock = FakeClock::default();
    open(&path, &clock).await.enqueue(vec![job(1, 10)]).await.expect("a job");
    fs::remove_file(beside(&path, "-mark")).expect("a mark");
    assert_eq!(open(&path, &clock).await.epoch().await.expect("epoch").epoch.number, 1);
    fs::rename(&path, &moved).expect("a move");
    assert_eq!(open(&moved, &clock).await.epoch().await.expect("epoch").epoch.number, 1);
    fs::write(beside(&moved, "-mark"), b"torn").expect("a mark");
    assert_eq!(open(&moved, &clock).await.epoch().await.expect("epoch").epoch.number, 1);
}

/// Whatever is done to the files of a store that is open: nothing more is acknowledged, and an idle one finds out.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_go_under_a_running_store_stop_it() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("moved", |path| fs::rename(path, beside(path, ".away")).expect("a move")),
        ("deleted", |path| fs::remove_file(path).expect("a file")),
        ("replaced", |path| {
            fs::copy(path, beside(path, ".new")).expect("a copy");
            fs::rename(beside(path, ".new"), path).expect("a move");
        }),
        ("without its log", |path| fs::remove_file(beside(path, "-wal")).expect("a log")),
        ("without the index of its log", |path| fs::remove_file(beside(path, "-shm")).expect("an index")),
    ];
    for (harm, on) in harms {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w.db");
        let clock = FakeClock::default();
        let (store, second) = (open(&path, &clock).await, open(&path, &clock).await);
        let idle = open(&path, &clock).await;
        store.enqueue(vec![job(1, 10)]).await.expect("a job");
        on(&path);
        for (store, n) in [(&store, 2), (&second, 3)] {
            let refused = store.enqueue(vec![job(n, 10)]).await.expect_err("nothing is accepted");
            assert!(matches!(refused, StoreError::Broken(_)), "{harm}: {refused}");
            assert!(store.now().await.is_err(), "{harm}: it is not ready either");
        }
        let says_so = |error: &StoreError| error.to_string().contains("w.db");
        eventually("an idle store finds out", async || idle.now().await.err().filter(says_so)).await;
    }
}

/// A file that was moved away and is put back has lost nothing.
#[tokio::test]
async fn a_file_that_was_put_back_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, away) = (folder.path().join("w.db"), folder.path().join("away.db"));
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    store.enqueue(vec![job(1, 10)]).await.expect("a job");
    fs::rename(&path, &away).expect("a move");
    store.enqueue(vec![job(2, 10)]).await.expect_err("nothing is accepted");
    drop(store);
    fs::rename(&away, &path).expect("a move");
    let store = open(&path, &clock).await;
    assert_eq!(store.epoch().await.expect("epoch").epoch.number, 1);
    assert!(store.get(id(1)).await.expect("get").is_some());
}

/// Several programs share a file and its mark. One that finds another file by the name of theirs is refused.
#[tokio::test]
async fn several_share_a_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let stores = [open(&path, &clock).await, open(&path, &clock).await];
    let floor = stores[0].epoch().await.expect("epoch").epoch.floor;
    assert_eq!(floor, 0, "who comes beside another is no start");
    for n in 1..=10 {
        stores[n % 2].enqueue(vec![job(n as u128, 10)]).await.expect("a job");
    }
    let [one, other] = stores;
    drop(one);
    other.enqueue(vec![job(11, 10)]).await.expect("a job");
    let _third = open(&path, &clock).await;
    fs::rename(&path, beside(&path, ".away")).expect("a move");
    fs::copy(beside(&path, ".away"), &path).expect("a copy");
    let refused = SqliteStore::open_with(&path, options(&clock)).await.err().expect("a refusal");
    assert!(matches!(refused, StoreError::InUse(_) | StoreError::Broken(_)), "{refused}");
}

/// A file that is overwritten with an older one while it is open takes nothing more, and the mark stays ahead of it: the
/// next who opens it sees that commits are lost.
#[tokio::test]
async fn a_file_that_went_back_takes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    for n in 1..=5 {
        store.enqueue(vec![job(n, 10)]).await.expect("a job");
    }
    let mark = || fs::read(beside(&path, "-mark")).expect("a mark");
    let before = mark();
    Connection::open(&path)
        .and_then(|conn| conn.execute_batch("UPDATE head SET commits = commits - 3"))
        .expect("an older file");
    let refused = store.enqueue(vec![job(6, 10)]).await.expect_err("nothing is accepted");
    assert!(matches!(refused, StoreError::Broken(_)) && refused.to_string().contains("older"), "{refused}");
    drop(store);
    assert!(mark() == before, "the mark does not follow");
    let store = open(&path, &clock).await;
    let epoch = store.epoch().await.expect("epoch").epoch;
    assert_eq!((epoch.number, epoch.lossy), (2, true));
    assert!(store.get(id(6)).await.expect("get").is_none());
}

/// The longest pause is a setting, of whoever opens the store.
#[tokio::test]
async fn the_longest_pause_is_a_setting() {
    let killed = Killed::new();
    fs::remove_file(beside(&killed.path, "-wal")).expect("a log");
    let mut short = options(&killed.clock);
    short.pause_ms_max = Some(5_000);
    let store = SqliteStore::open_with(&killed.path, short).await.expect("a store that opens");
    store.enqueue(vec![job(1, 10)]).await.expect("a job");
    killed.clock.advance(4_999);
    assert!(claim(&store, 1, 9).await.is_empty());
    killed.clock.advance(1);
    assert_eq!(claim(&store, 2, 9).await.len(), 1);
}
