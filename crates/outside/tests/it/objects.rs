//! Objects in a folder and in a bucket: the same promises.

use std::path::Path;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use windlass_outside::objects::{CloudSettings, ObjectKey, Objects, ObjectsError, Put};
use windlass_outside::safe_http::{HttpError, Origin};
use windlass_outside::secret::Secret;
use windlass_standins::{Fault, Gcs};

use crate::common::{hasty, limits, url};

fn key() -> ObjectKey {
    ObjectKey::new(&["audio", "agency-1", "SM1.ogg"]).unwrap()
}

fn folder(path: &Path) -> Objects {
    Objects::open(&format!("file://{}", path.display()), CloudSettings::default()).unwrap()
}

fn bucket(server: &Gcs) -> Objects {
    let token = Some(Secret::new(server.token()));
    let settings = CloudSettings { base: Some(url(&server.url())), token, limits: limits() };
    Objects::open("gs://bucket/.private/x", settings).unwrap()
}

fn pieces(pieces: &'static [&'static str]) -> impl futures::Stream<Item = Result<Bytes, HttpError>> + Send {
    stream::iter(pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))))
}

async fn content(objects: &Objects) -> Option<Vec<u8>> {
    let object = objects.get(&key()).await.unwrap()?;
    let all: Vec<Bytes> = object.stream.try_collect().await.unwrap();
    assert_eq!(all.concat().len() as u64, object.bytes);
    Some(all.concat())
}

/// What holds for every store.
async fn check(objects: &Objects) {
    assert_eq!(objects.head(&key()).await.unwrap(), None);
    assert_eq!(content(objects).await, None);

    let cut = HttpError::Cut { origin: Origin::of(&url("https://example.com")).unwrap() };
    let broken = pieces(&["abc"]).chain(stream::iter([Err(cut.clone())]));
    let error = objects.put_new(&key(), 100, broken).await.unwrap_err();
    assert_eq!((error.clone(), error.is_transient()), (ObjectsError::Source(cut), true));
    let error = objects.put_new(&key(), 5, pieces(&["abc", "def"])).await.unwrap_err();
    assert_eq!(error, ObjectsError::TooLarge { bytes_max: 5 });
    assert_eq!(objects.head(&key()).await.unwrap(), None, "nothing is left of what failed");

    let put = objects.put_new(&key(), 6, pieces(&["abc", "def"])).await.unwrap();
    let Put::Created(first) = put else { panic!("{put:?}") };
    let sha256 = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721";
    assert_eq!((first.bytes, first.sha256_hex().as_str()), (6, sha256));
    assert_eq!(objects.head(&key()).await.unwrap(), Some(6));
    assert_eq!(content(objects).await.unwrap(), b"abcdef");

    let again = objects.put_new(&key(), 100, pieces(&["other"])).await.unwrap();
    let Put::AlreadyThere { offered, found_bytes: 6 } = again else { panic!("{again:?}") };
    assert_eq!(offered.bytes, 5);
    assert_eq!(content(objects).await.unwrap(), b"abcdef", "the first one stays");
}

#[tokio::test]
async fn a_folder_keeps_objects() {
    let home = tempfile::tempdir().unwrap();
    let objects = folder(&home.path().join("new"));
    check(&objects).await;
    let parts = std::fs::read_dir(home.path().join("new/.parts")).unwrap().count();
    assert_eq!(parts, 0, "nothing is left of what was written");
    assert_eq!(std::fs::read(home.path().join("new/audio/agency-1/SM1.ogg")).unwrap(), b"abcdef");
}

#[tokio::test]
async fn a_bucket_keeps_objects() {
    let server = Gcs::start().await;
    check(&bucket(&server)).await;
    assert_eq!(server.objects().keys().collect::<Vec<_>>(), ["/bucket/.private/x/audio/agency-1/SM1.ogg"]);
    assert!(server.asked().iter().all(|ask| ask.header("authorization").is_some()));
}

/// Many writers of one name: one of them creates it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_creates() {
    let home = tempfile::tempdir().unwrap();
    let objects = folder(home.path());
    let puts = (0..50).map(|_| {
        let objects = objects.clone();
        tokio::spawn(async move { objects.put_new(&key(), 100, pieces(&["same"])).await.unwrap() })
    });
    let puts = futures::future::join_all(puts.collect::<Vec<_>>()).await;
    let created = puts.into_iter().filter(|put| matches!(put, Ok(Put::Created(_)))).count();
    assert_eq!(created, 1);
}

/// Fault 64: a link that somebody put into the folder leads nowhere.
#[tokio::test]
async fn fault_64_links_are_not_followed() {
    let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objects = folder(home.path());
    std::fs::write(outside.path().join("SM1.ogg"), "a secret").unwrap();
    std::fs::create_dir(home.path().join("audio")).unwrap();
    std::os::unix::fs::symlink(outside.path(), home.path().join("audio/agency-1")).unwrap();
    assert!(objects.put_new(&key(), 100, pieces(&["x"])).await.is_err());
    assert!(objects.get(&key()).await.is_err());
    assert!(objects.head(&key()).await.is_err());
    std::fs::remove_file(home.path().join("audio/agency-1")).unwrap();
    std::fs::create_dir(home.path().join("audio/agency-1")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("SM1.ogg"), home.path().join("audio/agency-1/SM1.ogg"))
        .unwrap();
    assert!(objects.get(&key()).await.is_err());
    assert!(objects.head(&key()).await.is_err());
    assert_eq!(std::fs::read(outside.path().join("SM1.ogg")).unwrap(), b"a secret");
}

/// A file that a dead process left is swept when it is a day old, and not before.
#[tokio::test]
async fn leftovers_are_swept() {
    let home = tempfile::tempdir().unwrap();
    folder(home.path());
    for (name, age_hours) in [("1-1", 25), ("1-2", 1)] {
        let file = std::fs::File::create(home.path().join(".parts").join(name)).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - std::time::Duration::from_secs(age_hours * 3600)).unwrap();
    }
    folder(home.path());
    let left: Vec<_> =
        std::fs::read_dir(home.path().join(".parts")).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["1-2"]);
}

#[tokio::test]
async fn faults_of_a_bucket() {
    let server = Gcs::start().await;
    let objects = bucket(&server);
    for (fault, code, transient) in [
        (Fault::Status(503, None), "store", true),
        (Fault::Status(401, None), "configuration", false),
        (Fault::Status(403, None), "configuration", false),
        (Fault::Status(400, None), "store", false),
        (Fault::CutHead, "store", true),
    ] {
        server.faults.push(fault.clone());
        let error = objects.put_new(&key(), 100, pieces(&["abc"])).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
    }
    for fault in [Fault::Status(503, None), Fault::CutHead, Fault::Status(500, None)] {
        server.faults.push(fault.clone());
        let error = objects.head(&key()).await.unwrap_err();
        assert!(error.is_transient(), "an error is never taken for absence: {fault:?} {error:?}");
    }
    server.faults.push(Fault::Status(403, None));
    assert_eq!(objects.head(&key()).await.unwrap_err(), ObjectsError::Configuration);
    let settings = CloudSettings {
        base: Some(url(&server.url())),
        token: Some(Secret::new(server.token())),
        limits: hasty(),
    };
    server.faults.push(Fault::HoldHead);
    let error = Objects::open("gs://bucket", settings).unwrap().head(&key()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn addresses_of_stores() {
    for address in
        ["", "bucket", "s3://bucket/x", "gs://", "gs:///prefix", "gs://bucket/a b", "file://host/x"]
    {
        let error = Objects::open(address, CloudSettings::default()).unwrap_err();
        assert_eq!(error.code(), "address", "{address}");
    }
}
