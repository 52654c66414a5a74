//! What a claim on an adopted table reads: the rows that it takes, and not those that wait.

use std::sync::Arc;

use tokio_postgres::Client;
use windlass_core::store::Source;
use windlass_postgres::Options;
use windlass_postgres::adopted::AdoptedTable;
use windlass_testkit::eventually::eventually;

use crate::adopted::{Tours, mapping};
use crate::scene::wish;

/// Rows of the table that were read so far, by whatever way.
async fn rows_read(client: &Client) -> i64 {
    let sql =
        "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'tours'";
    client.query_one(sql, &[]).await.expect("the statistics").get(0)
}

/// Thousands of rows that are held or not yet due lie before those that may be
/// claimed. With the index that the check proposes none of them is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_rows_that_wait() {
    for times in ["timestamptz", "timestamp"] {
        let tours = Tours::new(times).await;
        let client = &tours.scene.client;
        let rows = format!(
            "INSERT INTO tours (id, patient, created, status, tries, locked_until, next_attempt_at) \
             SELECT 't' || n, 'p', n, CASE WHEN n > 6000 THEN 'READY' WHEN n % 2 = 0 THEN 'RUNNING' ELSE 'RETRY' END, 0, \
             CASE WHEN n % 2 = 0 THEN '2026-06-01'::{times} END, CASE WHEN n <= 6000 THEN '2026-06-01'::{times} END \
             FROM generate_series(1, 6010) n"
        );
        client.batch_execute(&rows).await.expect("rows");
        let url = tours.scene.database.url();
        let found = AdoptedTable::check(&url, Options::default(), &mapping(true)).await.expect("a check");
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        client.batch_execute(finding.sql.as_deref().expect("an index")).await.expect(&finding.what);
        client.batch_execute("VACUUM ANALYZE tours").await.expect("statistics");
        let table = tours.open(true).await;
        let before = rows_read(client).await;
        let leases = table.claim(wish(5)).await.expect("a claim").leases;
        assert_eq!(leases[0].job.spec.payload.as_str(), r#"{"id":"t6001","patient":"p"}"#);
        assert_eq!(leases.len(), 5);
        // A connection that ends says what it has read.
        drop(Arc::into_inner(table).expect("nobody else has it"));
        let told = async || Some(rows_read(client).await - before).filter(|read| *read >= 5);
        let read = eventually("the statistics are told", told).await;
        // Each row is found, and then written.
        assert!(read <= 20, "{times}: {read} rows were read to claim 5");
    }
}
