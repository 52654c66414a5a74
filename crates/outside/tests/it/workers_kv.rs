//! Workers KV against its stand-in.

use serde_json::Value;
use windlass_outside::safe_http::Limits;
use windlass_outside::secret::Secret;
use windlass_outside::workers_kv::{Batch, Bulk, Pair, WorkersKv};
use windlass_standins::{Answer, Ask, Fault, Server, WorkersKv as StandIn};

use crate::common::{hasty, http, limits, url};

fn client(server: &StandIn, limits: Limits) -> WorkersKv {
    let token = Secret::new(server.token());
    let (base, account) = (url(&server.url()), Some(server.account()));
    WorkersKv::new(http(&[server.url()]), base, account, server.namespace(), &token, limits).unwrap()
}

fn pair(key: &str, value: &str) -> Pair {
    Pair::new(key, value, Some(2_592_000)).unwrap()
}

#[tokio::test]
async fn values_come_and_go() {
    let server = StandIn::start().await;
    let kv = client(&server, limits());
    assert_eq!(kv.get("article:newsdata:1").await, Ok(None));
    for key in ["article:newsdata:1", "a/b?c#d e%20f", "grün"] {
        kv.put(&pair(key, "grün & mehr")).await.unwrap();
        assert_eq!(kv.get(key).await.unwrap().as_deref(), Some("grün & mehr".as_bytes()), "{key}");
        assert_eq!(server.kept(key).unwrap().ttl_seconds, Some(2_592_000), "{key}");
        kv.delete(key).await.unwrap();
        assert_eq!(kv.get(key).await, Ok(None), "{key}");
        kv.delete(key).await.unwrap();
    }
    assert!(server.asked().iter().all(Ask::has_credentials));
}

#[tokio::test]
async fn many_in_one_call() {
    let server = StandIn::start().await;
    let kv = client(&server, limits());
    let pairs: Vec<Pair> = (0..10_001).map(|number| pair(&format!("article:{number:05}"), "{}")).collect();
    let batches = Batch::of(&pairs);
    assert_eq!(batches.iter().map(Batch::pairs).collect::<Vec<_>>(), [10_000, 1]);
    for batch in &batches {
        assert_eq!(kv.put_all(batch).await.unwrap(), Bulk { done: batch.pairs(), failed: vec![] });
    }
    assert_eq!((server.asked().len(), server.operations()), (2, (10_001, 0)));
    assert_eq!(server.kept("article:10000").unwrap().ttl_seconds, Some(2_592_000));
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = kv.keys("article:0", cursor.as_deref()).await.unwrap();
        seen.extend(page.keys.into_iter().map(|(key, _)| key));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), seen[9_999].as_str()), (10_000, "article:09999"));
    server.fail_key("article:00001");
    let twice = Batch::of(&[pair("article:00000", "new"), pair("article:00001", "new")]);
    let failed = vec!["article:00001".to_owned()];
    assert_eq!(kv.put_all(&twice[0]).await.unwrap(), Bulk { done: 1, failed: failed.clone() });
    let keys = ["article:00000".to_owned(), "article:00001".to_owned()];
    assert_eq!(kv.delete_all(&keys).await.unwrap(), Bulk { done: 1, failed });
    assert_eq!(server.kept("article:00000"), None);
}

/// What was written is seen later: nobody may take a read for the truth.
#[tokio::test]
async fn reads_may_be_old() {
    let server = StandIn::start().await;
    let kv = client(&server, limits());
    kv.put(&pair("a", "old")).await.unwrap();
    server.fall_behind();
    kv.put(&pair("a", "new")).await.unwrap();
    kv.put(&pair("b", "new")).await.unwrap();
    assert_eq!(kv.get("a").await.unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(kv.get("b").await, Ok(None));
    server.catch_up();
    assert_eq!(kv.get("a").await.unwrap().as_deref(), Some(&b"new"[..]));
}

#[tokio::test]
async fn the_days_operations_run_out() {
    let server = StandIn::start().await;
    let kv = client(&server, limits());
    server.writes_left(2);
    let three = Batch::of(&[pair("a", "1"), pair("b", "2"), pair("c", "3")]);
    assert_eq!(kv.put_all(&three[0]).await.unwrap_err().code(), "quota");
    assert_eq!(server.kept("a"), None, "a refused call changed nothing");
    kv.put_all(&Batch::of(&[pair("a", "1"), pair("b", "2")])[0]).await.unwrap();
    assert_eq!(kv.delete("a").await.unwrap_err().code(), "quota");
    server.reads_left(0);
    assert_eq!(kv.get("a").await.unwrap_err().code(), "quota");
}

/// Fault 14 of a store holds here too: trouble is never "nothing there".
#[tokio::test]
async fn faults_are_not_empty_values() {
    let server = StandIn::start().await;
    server.keep("a", "1");
    for (fault, code, transient) in [
        (Fault::Status(429, Some("7")), "rate_limit", true),
        (Fault::Status(404, None), "not_found", false),
        (Fault::Status(500, None), "upstream", true),
        (Fault::Status(403, None), "configuration", false),
        (Fault::HoldHead, "timeout", true),
        (Fault::CutHead, "cut", true),
        (Fault::CutBody { after: 0 }, "cut", true),
        (Fault::Huge(100_000_000), "too_large", false),
    ] {
        server.faults.push(fault.clone());
        let limits = if code == "timeout" { hasty() } else { limits() };
        let error = client(&server, limits).get("a").await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
    }
    server.faults.push(Fault::Garbage);
    assert_eq!(client(&server, limits()).keys("", None).await.unwrap_err().code(), "malformed");
    let wrong = Secret::new("canary".to_owned());
    let (base, account) = (url(&server.url()), Some(server.account()));
    let wrong = WorkersKv::new(http(&[server.url()]), base, account, "elsewhere", &wrong, limits()).unwrap();
    assert_eq!(wrong.get("a").await.unwrap_err().code(), "configuration");
    let token = Secret::new(server.token());
    let (base, account) = (url(&server.url()), Some(server.account()));
    let elsewhere =
        WorkersKv::new(http(&[server.url()]), base, account, "elsewhere", &token, limits()).unwrap();
    assert_eq!(elsewhere.get("a").await.unwrap_err().code(), "not_found");
}

/// A local server that plays one account has no account in its paths.
#[tokio::test]
async fn a_base_without_an_account() {
    let server = Server::start(|_: &Ask| Answer::json(200, &Value::Null)).await;
    let base = format!("{}/cdn-cgi/explorer/api", server.url());
    let token = Secret::new("none".to_owned());
    let kv = WorkersKv::new(http(&[server.url()]), url(&base), None, "NS", &token, limits()).unwrap();
    assert_eq!(kv.get("a b").await.unwrap().as_deref(), Some(&b"null"[..]));
    assert_eq!(server.asked()[0].path, "/cdn-cgi/explorer/api/storage/kv/namespaces/NS/values/a%20b");
}
