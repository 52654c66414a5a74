//! The client against a server that misbehaves.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use windlass_outside::retry_after::RetryAfter;
use windlass_outside::safe_http::{Body, HttpError, Limits, Refusal, Request};
use windlass_standins::{Answer, Ask, Fault, Raw, Server};

use crate::common::{fetch, get, hasty, http, limits, url};

async fn hello() -> Server {
    Server::start(|_: &Ask| Answer::new(200, "Text/Plain; charset=utf-8", "hello")).await
}

#[tokio::test]
async fn an_answer_is_read() {
    let server = hello().await;
    let answer = get(&server, limits()).await.unwrap();
    assert_eq!((answer.status(), answer.essence().as_deref()), (200, Some("text/plain")));
    assert_eq!(answer.declared_bytes(), Some(5));
    assert_eq!(&answer.bytes().await.unwrap()[..], b"hello");
    let asked = server.asked();
    assert_eq!(asked[0].header("accept-encoding"), Some("gzip"));
    assert!(asked[0].header("user-agent").unwrap().starts_with("windlass/"));
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = hello().await;
    let http = http(&[server.url()]);
    for _ in 0..3 {
        let answer = http.send(Request::get(url(&server.url()))).await.unwrap();
        assert_eq!(answer.bytes().await.unwrap().len(), 5);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn compressed_answers_are_unpacked() {
    let server = Server::start(|_: &Ask| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&b"hello ".repeat(10_000)).unwrap();
        Answer::new(200, "text/plain", encoder.finish().unwrap()).with("content-encoding", "gzip")
    })
    .await;
    assert_eq!(fetch(&server, limits()).await.unwrap().len(), 60_000);
    let empty =
        Server::start(|_: &Ask| Answer::new(200, "text/plain", "").with("content-encoding", "gzip")).await;
    assert_eq!(fetch(&empty, limits()).await.unwrap().len(), 0);
    let odd =
        Server::start(|_: &Ask| Answer::new(200, "text/plain", "x").with("content-encoding", "br")).await;
    assert_eq!(get(&odd, limits()).await.unwrap_err().code(), "garbled");
}

/// What was packed may be damaged on its way; another try gives another answer.
#[tokio::test]
async fn a_compressed_body_that_is_cut_or_damaged_may_be_asked_for_again() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&b"hello ".repeat(100)).unwrap();
    let packed = Bytes::from(encoder.finish().unwrap());
    let noise = Bytes::from_static(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff]);
    for body in [packed.slice(..packed.len() - 4), packed.slice(..20), noise, Bytes::from("no gzip")] {
        let length = body.len();
        let server = Server::start(move |_: &Ask| {
            Answer::new(200, "text/plain", body.clone()).with("content-encoding", "gzip")
        })
        .await;
        let error = fetch(&server, limits()).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), ("broken_body", true), "{length}: {error}");
    }
}

/// Fault 62: whatever is slow, the whole exchange has one deadline.
#[tokio::test]
async fn fault_62_slow_heads_bodies_and_trickles_end_at_the_deadline() {
    let server = hello().await;
    for fault in [
        Fault::HoldHead,
        Fault::HoldBody { after: 2 },
        Fault::HoldBody { after: 0 },
        Fault::Trickle { every: Duration::from_millis(10) },
    ] {
        server.faults.push(fault.clone());
        let error = fetch(&server, hasty()).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), ("timeout", true), "{fault:?}");
    }
}

/// Fault 62: a deadline counts over all hops together.
#[tokio::test]
async fn fault_62_a_slow_hop_after_a_redirect_ends_at_the_deadline() {
    let server = hello().await;
    server.faults.push(Fault::Redirect(302, "/next".to_owned()));
    server.faults.push(Fault::HoldHead);
    assert_eq!(fetch(&server, hasty()).await.unwrap_err().code(), "timeout");
    assert_eq!(server.asked().len(), 2);
}

/// A body that was held goes on when it is let go.
#[tokio::test]
async fn a_slow_answer_within_the_deadline_is_read() {
    let server = Arc::new(hello().await);
    server.faults.push(Fault::HoldBody { after: 2 });
    let mut answer = get(&server, limits()).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), Bytes::from_static(b"he"));
    server.faults.release();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), Bytes::from_static(b"llo"));
    assert_eq!(answer.chunk().await.unwrap(), None);
}

/// Fault 62: an endless redirect ends after five hops.
#[tokio::test]
async fn fault_62_endless_redirects() {
    let server = hello().await;
    server.faults.always(Fault::RedirectLoop);
    let error = fetch(&server, limits()).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("too_many_redirects", false));
    assert_eq!(server.asked().len(), 6);
    server.faults.clear();
    for _ in 0..5 {
        server.faults.push(Fault::RedirectLoop);
    }
    assert_eq!(fetch(&server, limits()).await.unwrap(), b"hello");
}

/// Fault 61: the limit is on decoded bytes.
#[tokio::test]
async fn fault_61_gzip_bombs_and_huge_bodies_stop_at_the_limit() {
    let server = hello().await;
    let small = Limits { bytes_max: 1_000_000, ..limits() };
    for fault in [Fault::GzipBomb(200_000_000), Fault::Huge(500_000_000)] {
        server.faults.push(fault.clone());
        let error = fetch(&server, small).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), ("too_large", false), "{fault:?}");
    }
    // What declares itself too large is not even read.
    let error = get(&server, Limits { bytes_max: 4, ..limits() }).await.unwrap_err();
    assert_eq!(error.code(), "too_large");
    assert_eq!(fetch(&server, Limits { bytes_max: 5, ..limits() }).await.unwrap(), b"hello");
}

#[tokio::test]
async fn connections_that_end_early() {
    let server = hello().await;
    for fault in [Fault::CutHead, Fault::CutBody { after: 3 }, Fault::CutBody { after: 0 }] {
        server.faults.push(fault.clone());
        let error = fetch(&server, limits()).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), ("cut", true), "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_no_http() {
    for bytes in ["SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 abc\r\n\r\n", "\u{1}\u{2}\u{3}\r\n\r\n"] {
        let server = Raw::start(bytes).await;
        let base = format!("http://{}", server.address());
        let error = http(std::slice::from_ref(&base))
            .send(Request::get(url(&base)).limits(limits()))
            .await
            .unwrap_err();
        assert_eq!((error.code(), error.is_transient()), ("garbled", false), "{bytes:?}");
    }
    let long = Raw::start(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000))).await;
    let base = format!("http://{}", long.address());
    let error =
        http(std::slice::from_ref(&base)).send(Request::get(url(&base)).limits(limits())).await.unwrap_err();
    assert_eq!(error.code(), "garbled");
}

#[tokio::test]
async fn nobody_is_there() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error =
        http(std::slice::from_ref(&base)).send(Request::get(url(&base)).limits(limits())).await.unwrap_err();
    let HttpError::Connect { why: ErrorKind::ConnectionRefused, .. } = error else { panic!("{error:?}") };
    assert!(error.is_transient());
}

#[tokio::test]
async fn statuses_and_when_to_ask_again() {
    let server = hello().await;
    for (status, retry_after, transient) in [
        (429, Some("7"), true),
        (503, Some("Sun, 06 Nov 2044 08:49:37 GMT"), true),
        (500, None, true),
        (404, None, false),
        (401, None, false),
        (501, None, false),
    ] {
        server.faults.push(Fault::Status(status, retry_after));
        let error = fetch(&server, limits()).await.unwrap_err();
        assert_eq!((error.status(), error.is_transient()), (Some(status), transient));
        assert_eq!(error.retry_after(), retry_after.and_then(RetryAfter::parse));
    }
}

#[tokio::test]
async fn a_post_is_not_redirected() {
    let server = hello().await;
    for status in [301, 302, 303, 307, 308] {
        server.faults.push(Fault::Redirect(status, "/elsewhere".to_owned()));
        let request = Request::post(url(&server.url()), Body::bytes("content")).limits(limits());
        let error = http(&[server.url()]).send(request).await.unwrap_err();
        assert_eq!(error.code(), "bad_redirect");
    }
    assert_eq!(server.asked().len(), 5);
    assert_eq!(server.asked()[0].header("content-length"), Some("7"));
}

#[tokio::test]
async fn a_body_that_cannot_be_read() {
    let server = hello().await;
    let pieces = [Ok(Bytes::from_static(b"abc")), Err(ErrorKind::StorageFull.into())];
    let body = Body::stream(10, futures::stream::iter(pieces));
    let request = Request::post(url(&server.url()), body).limits(limits());
    let error = http(&[server.url()]).send(request).await.unwrap_err();
    assert!(matches!(error, HttpError::Source { why: ErrorKind::StorageFull, .. }), "{error:?}");
}

#[tokio::test]
async fn redirects_without_a_target() {
    let server = Server::start(|_: &Ask| Answer::new(302, "text/plain", "")).await;
    assert_eq!(fetch(&server, limits()).await.unwrap_err().code(), "bad_redirect");
    let server = hello().await;
    server.faults.push(Fault::Redirect(302, "ftp://example.com/".to_owned()));
    assert_eq!(fetch(&server, limits()).await.unwrap_err(), HttpError::Refused(Refusal::Scheme));
}
