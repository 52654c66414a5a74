//! Documents that are not what they were: copied, put back, replaced, gone. Each is noticed.

use std::fs;
use std::sync::Arc;

use windlass_core::error::StoreError;
use windlass_core::store::{ClaimRequest, Source, Store};
use windlass_json::JsonStore;
use windlass_testkit::conformance::scene::{id, job, queue, worker};

use crate::{Place, read, write};

fn claim(n: u128) -> ClaimRequest {
    ClaimRequest {
        request_id: id(n).0,
        worker: worker("w"),
        queues: vec![queue("q")],
        kinds: None,
        limit: 9,
        lease_ms: None,
    }
}

async fn epoch(store: &Arc<JsonStore>) -> (u64, bool) {
    let epoch = store.epoch().await.expect("epoch").epoch;
    (epoch.number, epoch.lossy)
}

/// A restart is no new epoch, and lifts the floor.
#[tokio::test]
async fn a_restart_lifts_the_floor() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    assert_eq!(store.claim(claim(1)).await.expect("claim").leases[0].job.fence, 1);
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    drop(store);
    let store = place.opened().await;
    assert_eq!(epoch(&store).await, (1, false));
    assert!(store.claim(claim(2)).await.expect("claim").leases[0].job.fence > 1 << 20);
}

/// A backup in the place of a newer document, however it came there, and a copy elsewhere, with its mark and without.
#[tokio::test]
async fn a_copy_or_a_backup_is_a_new_epoch() {
    for way in ["cp over it", "mv", "copy", "copy with its mark"] {
        let place = Place::new();
        let store = place.opened().await;
        store.enqueue(vec![job(1)]).await.expect("enqueue");
        drop(store);
        let backup = read(&place.file());
        let store = place.opened().await;
        let lost = store.claim(claim(1)).await.expect("claim").leases[0].lease_ref();
        drop(store);
        let other = Place::new();
        let restored = match way {
            "cp over it" => {
                write(&place.file(), &backup);
                &place
            }
            "mv" => {
                write(&place.beside("backup"), &backup);
                fs::rename(place.beside("backup"), place.file()).expect("a move");
                &place
            }
            _ => {
                // Floors of one second are told apart by chance alone.
                other.clock.advance(1_000);
                write(&other.file(), &backup);
                if way == "copy with its mark" {
                    fs::copy(place.beside("mark"), other.beside("mark")).expect("a copy");
                }
                &other
            }
        };
        let store = restored.opened().await;
        assert_eq!(epoch(&store).await, (2, true), "{way}");
        assert!(store.claim(claim(2)).await.expect("claim").leases.is_empty(), "{way}: somebody may hold it");
        restored.clock.advance(30_000);
        let fence = store.claim(claim(3)).await.expect("claim").leases[0].job.fence;
        assert!(fence > lost.fence, "{way}");
        drop(store);
        assert_eq!(epoch(&restored.opened().await).await, (2, true), "{way}: it is said once");
    }
}

/// A document that is gone with its copy is not made anew, and one that was killed before its mark is whole.
#[tokio::test]
async fn a_mark_may_be_behind_and_never_alone() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let behind = read(&place.beside("mark"));
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    drop(store);
    write(&place.beside("mark"), &behind);
    assert_eq!(epoch(&place.opened().await).await, (1, false));
    fs::remove_file(place.file()).expect("a file");
    fs::remove_file(place.beside("1")).expect("a copy");
    let refused = place.open().await.err().expect("a refusal");
    assert!(
        matches!(refused, StoreError::Broken(_)) && refused.to_string().contains("jobs.json.mark"),
        "{refused}"
    );
    assert!(!place.file().exists());
    fs::remove_file(place.beside("mark")).expect("a mark");
    assert_eq!(epoch(&place.opened().await).await, (1, false));
}

/// A document that somebody put there while the store was open is left as it is.
#[tokio::test]
async fn a_document_that_was_replaced_is_not_overwritten() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let backup = read(&place.file());
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    write(&place.beside("backup"), &backup);
    fs::rename(place.beside("backup"), place.file()).expect("a move");
    let refused = store.enqueue(vec![job(3)]).await.expect_err("nothing is accepted");
    assert!(matches!(refused, StoreError::Broken(_)), "{refused}");
    drop(store);
    assert!(read(&place.file()) == backup);
    assert_eq!(epoch(&place.opened().await).await, (2, true));
}
