//! A real pgbouncer in transaction mode, with nothing said of it in the URL.

use windlass_core::store::{Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_postgres::PostgresStore;
use windlass_testkit::postgres::{Pooler, Server};

use crate::scene::{client, ends, job, wish};

/// One that refuses what it does not know, and one that leaves it out: both are recognised, and everything works.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_is_recognised() {
    for (more, direct) in
        [("", false), ("ignore_startup_parameters = options,extra_float_digits", false), ("", true)]
    {
        let server = Server::own().await;
        let pooler = Pooler::before(&server.authority(), more).await;
        let url = if direct { server.url("postgres") } else { pooler.url("postgres") };
        let store = PostgresStore::connect(&url).await.expect("a store");
        let says = |what: &str| what.contains("transaction pooler");
        let told = store.risks().await.expect("risks").iter().any(|risk| says(&risk.what));
        assert_eq!(told, !direct, "{more:?}");
        for round in 0..5 {
            let jobs = (1..=20).map(|n| job(round * 100 + n)).collect();
            store.enqueue(jobs).await.expect("enqueue");
            let leases: Vec<_> = store
                .claim(wish(20))
                .await
                .expect("claim")
                .leases
                .iter()
                .map(|leased| leased.lease_ref())
                .collect();
            assert_eq!(store.renew(leases.clone()).await.expect("renew").renewed.len(), 20);
            let settled = store.settle(ends(&leases, &Outcome::DONE)).await.expect("settle");
            assert_eq!(settled, vec![Written::Done; 20]);
        }
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        drop(client(&url).await);
    }
}

/// A schema of one's own is set in the session: where there is none, that is said, and no other schema is used instead.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_behind_a_pooler_is_refused() {
    let server = Server::own().await;
    let pooler =
        Pooler::before(&server.authority(), "ignore_startup_parameters = options,extra_float_digits").await;
    for url in [pooler.url("postgres"), server.url("postgres")] {
        let refused = PostgresStore::connect(&format!("{url}?schema=care")).await.err();
        let is_refused =
            refused.is_some_and(|error| error.to_string().contains("schema= beside a transaction pooler"));
        assert_eq!(is_refused, url == pooler.url("postgres"), "{url}");
    }
}
