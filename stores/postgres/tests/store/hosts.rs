//! Several hosts in one URL: a standby, a primary that freezes, a promotion.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::{Source, Store};
use windlass_core::transition::Outcome;
use windlass_postgres::PostgresStore;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::scene::{ends, job, wish};

/// A host that freezes is left within 5 s; the rest is for a machine that has more to do than cores.
const LEFT: Duration = Duration::from_millis(5_000 + 2_000);

/// A frozen primary is left, and its successor found, long before the calls on the frozen one would have ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_primary_is_left_for_the_promoted_standby() {
    let primary = Server::own().await;
    let standby = Server::standby_of(&primary).await;
    let url = format!("postgres://postgres@{},{}/postgres", primary.authority(), standby.authority());
    let store = PostgresStore::connect(&url).await.expect("a store");
    store.enqueue(vec![job(1)]).await.expect("the primary takes it");
    let held = store.claim(wish(1)).await.expect("claim").leases;
    eventually("the standby has it", async || {
        let url = standby.url("postgres");
        let client = crate::scene::client(&url).await;
        let rows = client.query("SELECT FROM windlass.grants", &[]).await.ok()?;
        (!rows.is_empty()).then_some(())
    })
    .await;
    let holder = crate::scene::client(&primary.url("postgres")).await;
    holder.batch_execute("BEGIN; LOCK TABLE windlass.epoch").await.expect("a lock that every call waits for");
    let asking = Arc::clone(&store);
    let under_way = tokio::spawn(async move { asking.enqueue(vec![job(3)]).await });
    let waits = "SELECT FROM pg_locks WHERE NOT granted";
    eventually("a call is under way", async || {
        holder.query(waits, &[]).await.ok().filter(|rows| !rows.is_empty())
    })
    .await;
    primary.freeze();
    let ended = tokio::time::timeout(LEFT, under_way).await.expect("it does not wait for the frozen one");
    assert!(ended.expect("no panic").is_err(), "nobody has answered");
    standby.promote();
    // A call on the frozen one alone would take all the time that this waits.
    eventually("the promoted one takes a job", async || store.enqueue(vec![job(2)]).await.ok()).await;
    eventually("the lease goes on there", async || {
        let leases: Vec<_> = held.iter().map(|leased| leased.lease_ref()).collect();
        store.settle(ends(&leases, &Outcome::DONE)).await.ok()
    })
    .await;
    primary.thaw();
}

/// Which of the hosts takes writes is found out, in whatever order they are named.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_passed_over() {
    let primary = Server::own().await;
    let standby = Server::standby_of(&primary).await;
    for attrs in
        ["", "?target_session_attrs=read-write", "?target_session_attrs=primary&load_balance_hosts=random"]
    {
        let url =
            format!("postgres://postgres@{},{}/postgres{attrs}", standby.authority(), primary.authority());
        let store = PostgresStore::connect(&url).await.expect("a store");
        store.enqueue(vec![job(1)]).await.expect("the primary takes it");
    }
    // Nobody who takes writes is there: that is said, and soon.
    let only =
        format!("postgres://postgres@{}/postgres?target_session_attrs=read-write", standby.authority());
    assert!(PostgresStore::connect(&only).await.is_err());
    let refused = PostgresStore::connect("postgres://h/d?target_session_attrs=standby").await.err();
    assert!(refused.is_some_and(|error| error.to_string().contains("target_session_attrs")));
}
