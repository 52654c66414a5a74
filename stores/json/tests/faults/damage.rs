//! Fault 6: a file that is not what was written.

use windlass_core::error::StoreError;
use windlass_core::store::{Source, Store};
use windlass_json::{JsonStore, OnDamage, Opening, Options, checksum};
use windlass_testkit::conformance::scene::{id, job, queue, worker};

use super::{Place, read, write};

/// A store with two jobs of which the copy has one.
async fn stage() -> (Place, Vec<u8>, Vec<u8>) {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    drop(store);
    let (file, copy) = (read(&place.file()), read(&place.beside("1")));
    (place, file, copy)
}

/// Opens a damaged store: the copy is taken, the file set aside unchanged.
async fn assert_restored(place: &Place, damaged: &[u8], what: &str) {
    let store = place.open().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let Opening::Restored { set_aside: Some(aside), copy, why } = store.opening().clone() else {
        panic!("{what}: the damage was not seen: {:?}", store.opening());
    };
    assert_eq!(copy, place.beside("1"), "{what}");
    assert!(!why.is_empty());
    assert!(read(&aside) == damaged, "{what}: what was set aside is not what was there");
    assert!(store.get(id(1)).await.expect("get").is_some(), "{what}: the copy has job 1");
    assert!(store.get(id(2)).await.expect("get").is_none(), "{what}: the copy does not have job 2");
    drop(store);
    let again = place.opened().await;
    assert_eq!(again.opening(), &Opening::Loaded, "{what}: afterwards all is well");
    drop(again);
    std::fs::remove_file(&aside).expect("to be set aside again");
}

/// A program may say that it begins anew: then the name keeps its ending, the
/// new file is there at once, and no copy is kept.
#[tokio::test]
async fn fault_6_begin_anew_when_told_so() {
    let place = Place::new();
    let options = || Options { on_damage: OnDamage::BeginAnew, ..place.options() };
    let store = JsonStore::open_with(place.file(), options()).await.expect("an empty store");
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    drop(store);
    assert_eq!(place.names(), ["jobs.json", "jobs.json.lock", "jobs.json.mark"]);
    write(&place.file(), b"{ this is no store");
    let store = JsonStore::open_with(place.file(), options()).await.expect("the store opens");
    let Opening::Anew { set_aside, .. } = store.opening().clone() else {
        panic!("the damage was not seen: {:?}", store.opening());
    };
    let name = set_aside.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(name.starts_with("jobs.corrupt-") && name.ends_with(".json"), "{name}");
    assert_eq!(read(&set_aside), b"{ this is no store");
    assert!(store.get(id(1)).await.expect("get").is_none());
    assert!(place.file().exists());
}

/// A flipped bit anywhere is seen.
#[tokio::test]
async fn fault_6_a_flipped_bit() {
    let (place, file, copy) = stage().await;
    for at in (0..file.len()).step_by(13).chain([file.len() - 1]) {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        write(&place.file(), &damaged);
        write(&place.beside("1"), &copy);
        assert_restored(&place, &damaged, &format!("bit {} of byte {at}", at % 8)).await;
    }
}

/// A file that was cut off anywhere is seen, also one of which nothing is left.
#[tokio::test]
async fn fault_6_a_truncated_file() {
    let (place, file, copy) = stage().await;
    for len in (0..file.len()).step_by(29).chain([file.len() - 1]) {
        write(&place.file(), &file[..len]);
        write(&place.beside("1"), &copy);
        assert_restored(&place, &file[..len], &format!("cut off after {len} bytes")).await;
    }
}

/// A file of a newer version is whole: it is left alone, and so is its copy.
#[tokio::test]
async fn fault_6_another_version() {
    let (place, file, copy) = stage().await;
    let text = String::from_utf8(file).expect("JSON is text");
    let rest = text.split_once("\",").expect("what follows the checksum").1.trim_end();
    let newer = rest.replace("\"version\":1", "\"version\":2");
    let newer = format!("{{\"checksum\":\"{:016x}\",{newer}\n", checksum(newer.as_bytes()));
    write(&place.file(), newer.as_bytes());
    let error = place.open().await.err().expect("a refusal");
    assert!(matches!(&error, StoreError::Schema(why) if why.contains("version 2")), "{error}");
    assert!(
        read(&place.file()) == newer.as_bytes() && read(&place.beside("1")) == copy,
        "nothing was touched"
    );
}

/// With no good copy the store does not open, and touches nothing: it never
/// starts empty where something was.
#[tokio::test]
async fn fault_6_no_good_copy() {
    let (place, file, copy) = stage().await;
    for copy in [None, Some(&copy[..copy.len() / 2]), Some(b"".as_slice())] {
        write(&place.file(), &file[..file.len() / 2]);
        match copy {
            Some(copy) => write(&place.beside("1"), copy),
            None => std::fs::remove_file(place.beside("1")).expect("a copy"),
        }
        let names = place.names();
        for _ in 0..2 {
            let error = place.open().await.err().expect("a refusal");
            let StoreError::Broken(why) = &error else { panic!("{error}") };
            assert!(why.contains("jobs.json") && why.contains("Nothing was touched"), "{why}");
        }
        assert_eq!(place.names(), names);
        assert!(read(&place.file()) == file[..file.len() / 2]);
    }
}

/// A file that is gone, with its copy still there, is not an empty store.
#[tokio::test]
async fn fault_6_a_file_that_is_gone() {
    let (place, ..) = stage().await;
    std::fs::remove_file(place.file()).expect("a file");
    let store = place.opened().await;
    assert!(matches!(store.opening(), Opening::Restored { set_aside: None, .. }), "{:?}", store.opening());
    assert!(store.get(id(1)).await.expect("get").is_some());
}

/// What a killed writer left half written is nothing.
#[tokio::test]
async fn a_torn_temporary_file_is_nothing() {
    let (place, file, _) = stage().await;
    write(&place.beside("tmp"), &file[..file.len() / 2]);
    write(&place.beside("1.tmp"), b"{");
    let store = place.opened().await;
    assert_eq!(store.opening(), &Opening::Loaded);
    store.enqueue(vec![job(3)]).await.expect("enqueue");
    assert_eq!(place.names(), ["jobs.json", "jobs.json.1", "jobs.json.lock", "jobs.json.mark"]);
}

/// Fault 23: leases that were given after the copy was made stay stale when
/// the copy is taken.
#[tokio::test]
async fn fault_23_leases_since_the_copy_stay_stale() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let claim = |n: u128| windlass_core::store::ClaimRequest {
        request_id: id(n).0,
        worker: worker("w"),
        queues: vec![queue("q")],
        kinds: None,
        limit: 1,
        lease_ms: None,
    };
    let old = store.claim(claim(1)).await.expect("claim").leases[0].lease_ref();
    drop(store);
    write(&place.file(), b"damaged");
    let store = place.opened().await;
    assert!(store.claim(claim(3)).await.expect("claim").leases.is_empty(), "somebody may hold it");
    place.clock.advance(30_000);
    let new = store.claim(claim(2)).await.expect("claim").leases[0].lease_ref();
    assert!(new.fence > old.fence, "{} after {}", new.fence, old.fence);
    assert_eq!(store.renew(vec![old]).await.expect("renew").lost, [id(1)]);
}
