//! Who may open, what is opened, and how much it holds.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use windlass_core::book::{Book, Document};
use windlass_core::error::StoreError;
use windlass_core::state::{FailureReason, State};
use windlass_core::store::Store;
use windlass_json::{Content, JsonStore, Layout, OnDamage, OnOpen, Opening, Options, Unreadable};
use windlass_testkit::conformance::scene::{beat_of, id, job, number};

use super::child::{churn, lines};
use super::{Place, read, write};

/// Fault 7: above its limit a store refuses new jobs, whole batches, and says so.
#[tokio::test]
async fn fault_7_a_store_has_a_limit() {
    let place = Place::new();
    let options = Options { jobs_max: 3, ..place.options() };
    let store = JsonStore::open_with(place.file(), options).await.expect("the store opens");
    store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    let error = store.enqueue(vec![job(3), job(4)]).await.expect_err("a refusal");
    assert!(matches!(&error, StoreError::Full(why) if why.contains("SQLite")), "{error}");
    assert!(store.get(id(3)).await.expect("get").is_none(), "all or none");
    store.enqueue(vec![job(3), job(1), job(3)]).await.expect("what is there already takes no room");
    assert!(matches!(store.enqueue(vec![job(4)]).await, Err(StoreError::Full(_))));
    store.enqueue(vec![job(2)]).await.expect("a repeat is harmless, also at the limit");
    store.cancel(id(1)).await.expect("what is there can still be worked on");
    place.clock.advance(31 * 86_400_000);
    assert_eq!(store.prune().await.expect("prune"), 1);
    store.enqueue(vec![job(4)]).await.expect("there is room again");
}

/// Fault 8: a second opener is refused, in this process and in another, and
/// told which file is in the way; when the first has ended, it may.
#[tokio::test]
async fn fault_8_one_process_at_a_time() {
    let place = Place::new();
    let store = place.opened().await;
    let error = place.open().await.err().expect("a refusal");
    assert!(matches!(&error, StoreError::InUse(why) if why.contains("jobs.json.lock")), "{error}");
    let other = || Command::new(churn()).arg(place.file()).arg("work").output().expect("churn starts");
    assert_eq!(lines(&other()), ["error store_in_use"]);
    drop(store);
    assert!(other().status.success());
    assert!(place.open().await.is_ok());
}

/// All files are for their owner alone, and a file that was made read-only is respected.
#[tokio::test]
async fn files_are_for_their_owner() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    drop(store);
    for name in place.names() {
        let mode = std::fs::metadata(place.folder.path().join(&name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let read_only = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(place.file(), read_only).expect("permissions");
    let before = read(&place.file());
    let error = place.open().await.err().expect("a refusal");
    assert!(matches!(&error, StoreError::CannotWrite(why) if why.contains("read-only")), "{error}");
    assert!(read(&place.file()) == before);
}

/// A new place is an empty store, and says so.
#[tokio::test]
async fn a_fresh_store() {
    let place = Place::new();
    assert_eq!(place.opened().await.opening(), &Opening::Fresh);
    let nowhere = JsonStore::open_with(place.folder.path().join("no/such/jobs.json"), place.options()).await;
    assert!(matches!(nowhere.err(), Some(StoreError::CannotWrite(why)) if why.contains("jobs.json.lock")));
}

/// A program that does not survive a restart finds its unfinished jobs failed, durably.
#[tokio::test]
async fn unfinished_jobs_can_end_with_a_restart() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    store.cancel(id(2)).await.expect("cancel");
    drop(store);
    let options = Options { on_open: OnOpen::FailUnfinished, ..place.options() };
    drop(JsonStore::open_with(place.file(), options).await.expect("the store opens"));
    let store = place.opened().await;
    let state = async |n| store.get(id(n)).await.expect("get").expect("a job").state;
    assert!(matches!(state(1).await, State::Failed { reason: FailureReason::WorkerRestart, .. }));
    assert!(matches!(state(2).await, State::Canceled { .. }));
}

/// A program that does not survive a restart leaves nothing unfinished behind when it ends in good order.
#[tokio::test]
async fn unfinished_jobs_can_end_with_the_store() {
    let place = Place::new();
    let options = || Options { on_open: OnOpen::FailUnfinished, ..place.options() };
    let store = JsonStore::open_with(place.file(), options()).await.expect("the store opens");
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    drop(store);
    let store = place.opened().await;
    let state = store.get(id(1)).await.expect("get").expect("a job").state;
    assert!(matches!(state, State::Failed { reason: FailureReason::WorkerRestart, .. }), "{state:?}");
}

/// Somebody deletes the file, or its folder with the lock: what is in memory is written again.
#[tokio::test]
async fn a_deleted_file_is_written_again() {
    let place = Place::new();
    let (folder, file) = (place.folder.path().join("runtime"), place.folder.path().join("runtime/jobs.json"));
    std::fs::create_dir(&folder).expect("a folder");
    let store = JsonStore::open_with(&file, place.options()).await.expect("the store opens");
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    store.enqueue(vec![job(2)]).await.expect("it goes on");
    let second = JsonStore::open_with(&file, place.options()).await;
    assert!(matches!(second.err(), Some(StoreError::InUse(_))), "the lock keeps others out again");
    std::fs::remove_file(&file).expect("the file goes");
    // A change that changes nothing in the document finds it gone all the same.
    store.beat(beat_of("worker")).await.expect("a beat");
    assert!(file.exists());
    drop(store);
    let store = JsonStore::open_with(&file, place.options()).await.expect("the store opens");
    for n in [1, 2] {
        assert!(store.get(id(n)).await.expect("get").is_some(), "job {n} is there");
    }
}

/// Should another program have begun where the folder was, the file is its own.
#[tokio::test]
async fn a_place_that_another_has_taken_is_left_to_it() {
    let place = Place::new();
    let (folder, file) = (place.folder.path().join("runtime"), place.folder.path().join("runtime/jobs.json"));
    std::fs::create_dir(&folder).expect("a folder");
    let store = JsonStore::open_with(&file, place.options()).await.expect("the store opens");
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    std::fs::create_dir(&folder).expect("a folder");
    let other = JsonStore::open_with(&file, place.options()).await.expect("another opens");
    other.enqueue(vec![job(7)]).await.expect("enqueue");
    let error = store.enqueue(vec![job(2)]).await.expect_err("a refusal");
    assert!(matches!(error, StoreError::Broken(_)), "{error}");
    assert!(other.get(id(7)).await.expect("get").is_some() && other.get(id(1)).await.expect("get").is_none());
}

/// What was set aside is kept for a while, and never more than a few.
#[tokio::test]
async fn what_was_set_aside_is_pruned() {
    let place = Place::new();
    let day = 86_400_000;
    let options =
        || Options { on_damage: OnDamage::BeginAnew, age_ms_max: Some(30 * day), ..place.options() };
    let aside = || place.names().iter().filter(|name| name.starts_with("jobs.corrupt-")).count();
    for _ in 0..12 {
        write(&place.file(), b"no document");
        drop(JsonStore::open_with(place.file(), options()).await.expect("the store opens"));
        place.clock.advance(1_000);
    }
    assert_eq!(aside(), 10);
    write(&place.folder.path().join("jobs.notes.json"), b"not ours");
    place.clock.advance(29 * day);
    let store = JsonStore::open_with(place.file(), options()).await.expect("the store opens");
    assert_eq!(aside(), 10);
    place.clock.advance(2 * day);
    store.prune().await.expect("prune");
    assert_eq!(aside(), 0);
    assert!(place.names().contains(&"jobs.notes.json".to_owned()));
}

/// A layout of one's own: the file is what another program expects.
pub struct Foreign;

impl Layout for Foreign {
    fn write(&self, content: &Content) -> Result<Vec<u8>, String> {
        let jobs = content.book.jobs().map(|job| format!("{{\"jobId\":{}}}", number(job.id)));
        Ok(format!("{{\"jobs\":[{}]}}", jobs.collect::<Vec<_>>().join(",")).into_bytes())
    }

    fn read(&self, bytes: &[u8]) -> Result<Content, Unreadable> {
        let text = std::str::from_utf8(bytes).map_err(|error| Unreadable::Damaged(error.to_string()))?;
        let ids = text.strip_prefix("{\"jobs\":[").and_then(|rest| rest.strip_suffix("]}"));
        let ids = ids.ok_or_else(|| Unreadable::Damaged("it is cut off".to_owned()))?;
        let mut book = Book::new();
        for entry in ids.split(',').filter(|entry| !entry.is_empty()) {
            let digits: String = entry.chars().filter(char::is_ascii_digit).collect();
            let n = digits.parse().map_err(|_| Unreadable::Damaged("a job has no id".to_owned()))?;
            book.enqueue(vec![job(n)], windlass_core::time::Time::MIN)
                .map_err(|error| Unreadable::Damaged(error.to_string()))?;
        }
        let document: Document = book.to_document();
        let book = Book::from_document(document).map_err(|error| Unreadable::Damaged(error.to_string()))?;
        Ok(Content { book: Arc::new(book), ..Content::default() })
    }
}

/// A worker may keep the file format of the program that it replaces.
#[tokio::test]
async fn a_layout_of_ones_own() {
    let place = Place::new();
    write(&place.file(), b"{\"jobs\":[{\"jobId\":7}]}");
    let options = || Options { layout: Arc::new(Foreign), ..place.options() };
    let store = JsonStore::open_with(place.file(), options()).await.expect("the store opens");
    assert!(store.get(id(7)).await.expect("get").is_some());
    store.enqueue(vec![job(8)]).await.expect("enqueue");
    drop(store);
    assert_eq!(read(&place.file()), b"{\"jobs\":[{\"jobId\":7},{\"jobId\":8}]}");
    write(&place.file(), b"{\"jobs\":[{\"jobId\":7},{\"jo");
    let store = JsonStore::open_with(place.file(), options()).await.expect("the copy is there");
    assert!(matches!(store.opening(), Opening::Restored { .. }));
    assert!(store.get(id(7)).await.expect("get").is_some() && store.get(id(8)).await.expect("get").is_none());
}
