//! Whose a row is, the row says: not the process that claimed it, and not the ticket of its lease.

use std::sync::Arc;

use windlass_core::json::Json;
use windlass_core::store::{LeaseRef, Leased, Source, StepWrite, Written};
use windlass_core::ticket::Ticket;
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;
use windlass_postgres::Options;
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::adopted::mapping::Mapping;
use windlass_testkit::postgres::Server;

use crate::adopted::{COLUMNS, Tours, claim, end, mapping};
use crate::scene::{client, wish};

fn step(lease: LeaseRef) -> StepWrite {
    StepWrite { lease, name: "fetch".parse().expect("a step"), output: Json::null() }
}

/// What comes back with a lease: what was given, nothing, somebody else's, and one with a byte changed.
fn tickets(leased: &Leased, other: &Leased) -> Vec<(&'static str, LeaseRef)> {
    let lease = leased.lease_ref();
    let mut bytes = lease.ticket.expect("a ticket").bytes().to_vec();
    bytes[6] ^= 1;
    vec![
        ("its own", lease),
        ("none", LeaseRef::new(lease.job_id, lease.fence)),
        ("another's", LeaseRef { ticket: other.ticket, ..lease }),
        ("a changed one", LeaseRef { ticket: Ticket::new(&bytes), ..lease }),
        ("one of a store", LeaseRef { ticket: Ticket::new(&[1; 25]), ..lease }),
    ]
}

/// A lease is renewed, stepped and settled through a process that did not claim it, with any ticket or none, as long as the row
/// says that it is held with that fence; once it does not, nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_outlives_the_process_that_claimed_it() {
    for (times, fence) in [("timestamptz", true), ("text", false)] {
        let tours = Tours::new(times).await;
        for n in 1..=10 {
            tours.add(n, "READY").await;
        }
        let claimed = claim(&*tours.open(fence).await, 10).await;
        let other = tours.open(fence).await;
        for at in 0..5 {
            let (leased, stale) = (&claimed[at], &claimed[at + 5]);
            let (what, lease) = tickets(leased, stale)[at];
            let renewed = other.renew(vec![lease]).await.expect("renew");
            assert_eq!((renewed.renewed, renewed.lost), (vec![lease.job_id], vec![]), "{what}");
            assert_eq!(
                other.store_steps(vec![step(lease)]).await.expect("a step"),
                [Written::Done],
                "{what}"
            );
            assert_eq!(end(&other, lease, Outcome::DONE).await, Written::Done, "{what}");
            assert_eq!(tours.text(at as i32 + 1, "status").await.as_deref(), Some("DONE"), "{what}");
            // The others are somebody else's by now.
            let taken = "UPDATE tours SET owner = 'somebody' WHERE id = $1";
            tours.scene.client.execute(taken, &[&format!("t{}", at + 6)]).await.expect("a row");
            let (_, lost) = tickets(stale, leased)[at];
            assert_eq!(other.renew(vec![lost]).await.expect("renew").lost, [lost.job_id], "{what}");
            assert_eq!(other.store_steps(vec![step(lost)]).await.expect("a step"), [Written::Lost], "{what}");
            assert_eq!(end(&other, lost, Outcome::DONE).await, Written::Lost, "{what}");
            let status = tours.text(at as i32 + 6, "status").await;
            assert_eq!(status.as_deref(), Some("RUNNING"), "{what}");
        }
    }
}

/// A settlement whose answer was lost is known by another process, and two leases of one row in one batch are told apart.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_known_to_another_process() {
    for fence in [true, false] {
        let tours = Tours::new("timestamptz").await;
        tours.add(1, "READY").await;
        let one = tours.open(fence).await;
        let first = claim(&one, 1).await[0].lease_ref();
        assert_eq!(end(&one, first, Outcome::Released).await, Written::Done);
        tours.clock.advance(1);
        let second = claim(&one, 1).await[0].lease_ref();
        assert!(second.fence > first.fence, "{} after {}", second.fence, first.fence);
        assert!(second.fence < 1 << 53);
        let other = tours.open(fence).await;
        let both = crate::scene::ends(&[first, second], &Outcome::DONE);
        assert_eq!(other.settle(both).await.expect("settle"), [Written::Lost, Written::Done]);
        assert_eq!(end(&*tours.open(fence).await, second, Outcome::DONE).await, Written::Done, "asked again");
        assert_eq!(end(&one, first, Outcome::DONE).await, Written::Lost);
    }
}

/// A row whose id does not fit into a ticket is worked all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_id_has_no_ticket() {
    let tours = Tours::new("timestamptz").await;
    let row = "INSERT INTO tours (id, patient, created, status, tries) VALUES (repeat('x', 200), 'p', 1, 'READY', 0)";
    tours.scene.client.batch_execute(row).await.expect("a row");
    let table = tours.open(true).await;
    let claimed = claim(&table, 1).await;
    assert_eq!(claimed[0].ticket, None);
    let lease = claimed[0].lease_ref();
    assert_eq!(table.renew(vec![lease]).await.expect("renew").renewed, [lease.job_id]);
    assert_eq!(end(&table, lease, Outcome::DONE).await, Written::Done);
}

/// How long a lock was asked for is in its ticket; who has lost that makes it no shorter.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_as_long_as_the_claim() {
    let tours = Tours::new("timestamptz").await;
    tours.add(1, "READY").await;
    let table = tours.open(true).await;
    let asked = windlass_core::store::ClaimRequest { lease_ms: Some(120_000), ..wish(1) };
    let lease = table.claim(asked).await.expect("claim").leases[0].lease_ref();
    let left = async || {
        let sql = "SELECT (extract(epoch FROM locked_until) * 1000)::bigint FROM tours";
        tours.scene.client.query_one(sql, &[]).await.expect("the row").get::<_, i64>(0)
            - tours.clock.wall().ms()
    };
    for (passed, ticket, expected) in
        [(0, None, 120_000), (100_000, None, 30_000), (0, lease.ticket, 120_000)]
    {
        tours.clock.advance(passed);
        let renewed = table.renew(vec![LeaseRef { ticket, ..lease }]).await.expect("renew").renewed;
        assert_eq!((renewed.len(), left().await), (1, expected));
    }
}

/// Whether a row is tried again, and when, is by the tries that it counts, not by what a process has seen at its claim.
#[tokio::test(flavor = "multi_thread")]
async fn the_row_counts_its_tries() {
    let tours = Tours::new("timestamptz").await;
    tours.add(1, "READY").await;
    tours.add(2, "READY").await;
    let table = tours.open(true).await;
    let leases = claim(&table, 2).await;
    tours.scene.client.batch_execute("UPDATE tours SET tries = 3 WHERE id = 't1'").await.expect("tries");
    for leased in leases {
        let retry = Outcome::Retry { error: "no".into(), when: None };
        assert_eq!(end(&table, leased.lease_ref(), retry.clone()).await, Written::Done);
    }
    assert_eq!(tours.text(1, "status").await.as_deref(), Some("FAILED"));
    assert_eq!(tours.text(2, "status").await.as_deref(), Some("RETRY"));
}

/// A narrow column for the fence is refused, with what widens it.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_needs_its_room() {
    let tours = Tours::new("timestamptz").await;
    tours.scene.client.batch_execute("ALTER TABLE tours ALTER fence TYPE int").await.expect("a column");
    let (url, mapping) = (tours.scene.database.url(), mapping(true));
    let found = AdoptedTable::check(&url, Options::default(), &mapping).await.expect("a look");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].what, "tours.fence is of type integer; it must be bigint");
    assert!(AdoptedTable::open(&url, Options::default(), mapping.clone()).await.is_err());
    tours.scene.client.batch_execute(found[0].sql.as_deref().expect("what to do")).await.expect("it is done");
    assert!(AdoptedTable::open(&url, Options::default(), mapping).await.is_ok());
}

async fn open(server: &Server, mapping: Mapping) -> Arc<AdoptedTable> {
    AdoptedTable::open(&server.url("postgres"), Options::default(), mapping).await.expect("an adopted table")
}

/// A promotion loses a claim: the row is given to another with a higher fence, and what the first writes late changes nothing, also
/// when both are workers of one name.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_claim_is_not_handed_out_again() {
    for fence in [true, false] {
        let primary = Server::own().await;
        let standby = Server::standby_of(&primary).await;
        let sql = client(&primary.url("postgres")).await;
        let table = format!(
            "CREATE TABLE tours (id text PRIMARY KEY, {COLUMNS}, locked_until timestamptz, next_attempt_at timestamptz); \
             INSERT INTO tours (id, patient, created, status, tries) VALUES ('t1', 'p', 1, 'READY', 0)"
        );
        sql.batch_execute(&table).await.expect("a table");
        primary.until_followed_by(&standby).await;
        primary.stop_sending();
        let lost = claim(&*open(&primary, mapping(fence)).await, 1).await[0].lease_ref();
        primary.kill().await;
        standby.promote();
        standby.takes_writes().await;
        let after = open(&standby, mapping(fence)).await;
        let taken = claim(&after, 1).await[0].lease_ref();
        assert_eq!(taken.job_id, lost.job_id);
        assert!(taken.fence > lost.fence, "{} after {}", taken.fence, lost.fence);
        assert_eq!(after.renew(vec![lost]).await.expect("renew").lost, [lost.job_id]);
        assert_eq!(end(&after, lost, Outcome::DONE).await, Written::Lost);
        assert_eq!(end(&after, taken, Outcome::DONE).await, Written::Done);
    }
}
