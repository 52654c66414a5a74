//! A Postgres that is killed, freezes, is promoted, restored, restarted or cut off, under load, with an oracle that stands outside
//! (`oracle.rs` says what it asks for). One round of each here, ten in `./test --full`.

mod fleet;
mod heard;
mod oracle;
mod pair;
mod patroni;

use windlass_testkit::postgres::Server;
use windlass_testkit::relay::{Relay, Way};

use self::fleet::Fleet;
use self::oracle::Lost;
use self::pair::Pair;

/// How many rounds of each fault; `./test --full` sets it.
fn rounds() -> u32 {
    std::env::var("WINDLASS_ROUNDS").map_or(1, |said| said.parse().expect("WINDLASS_ROUNDS is a number"))
}

/// Longer than a lease lasts; where there are many rounds, a minute.
fn outage_ms() -> u64 {
    if rounds() > 1 { 60_000 } else { u64::from(fleet::LEASE_MS) + 2_000 }
}

/// How many attempts begin before a fault, and after it.
const SOME: usize = 60;

async fn no_fault_is_found(what: &str, round: u32, fleet: Fleet, lost: Option<Lost>) {
    let wrong = fleet.end(lost).await;
    assert!(wrong.is_empty(), "{what}, round {round}: {}", wrong.join("\n"));
}

/// A synchronous standby takes over from a primary that was killed with -9: nothing is lost, and nothing waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_primary_that_is_killed() {
    for round in 1..=rounds() {
        let pair = Pair::synchronous().await;
        let fleet = Fleet::start(&pair.url()).await;
        fleet.works(SOME).await;
        pair.primary.kill().await;
        let asked = fleet.asks();
        pair.standby.promote();
        let promoted_at = fleet.oracle.now_ms();
        let took = asked.await.expect("an answer").saturating_sub(promoted_at);
        eprintln!("killed, round {round}: the first enqueue {took} ms after the promotion");
        fleet.works(SOME).await;
        no_fault_is_found("killed", round, fleet, None).await;
    }
}

/// A primary that freezes for longer than a lease, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_primary_that_freezes() {
    for round in 1..=rounds() {
        let pair = Pair::asynchronous().await;
        let fleet = Fleet::start(&pair.url()).await;
        fleet.works(SOME).await;
        pair.primary.freeze();
        fleet.passes(outage_ms()).await;
        pair.primary.thaw();
        fleet.works(SOME).await;
        no_fault_is_found("frozen", round, fleet, None).await;
    }
}

/// A primary that freezes for good: its synchronous standby is promoted, and found.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_primary_that_freezes_for_good() {
    for round in 1..=rounds() {
        let pair = Pair::synchronous().await;
        let fleet = Fleet::start(&pair.url()).await;
        fleet.works(SOME).await;
        pair.primary.freeze();
        let frozen_at = fleet.oracle.now_ms();
        let asked = fleet.asks();
        pair.standby.promote();
        let took = asked.await.expect("an answer") - frozen_at;
        eprintln!("frozen for good, round {round}: the first enqueue {took} ms after the freeze");
        fleet.works(SOME).await;
        no_fault_is_found("frozen for good", round, fleet, None).await;
    }
}

/// An asynchronous standby takes over that has not heard of the newest commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_promotion_that_loses_commits() {
    for round in 1..=rounds() {
        let pair = Pair::asynchronous().await;
        let fleet = Fleet::start(&pair.url()).await;
        fleet.works(SOME).await;
        let from = fleet.oracle.now();
        pair.primary.until_followed_by(&pair.standby).await;
        pair.primary.stop_sending();
        fleet.works(SOME).await;
        let lost = Lost { from, to: fleet.oracle.now() };
        pair.primary.kill().await;
        pair.standby.promote();
        fleet.works(SOME).await;
        no_fault_is_found("lossy promotion", round, fleet, Some(lost)).await;
    }
}

/// A dump that was made under load is restored in another cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dump_that_is_restored() {
    for round in 1..=rounds() {
        let (old, new) = (Server::own().await, Server::own().await);
        let relay = Relay::to(&old.authority()).await;
        let fleet = Fleet::start(&pair::url(&[&relay.authority()], "")).await;
        fleet.works(SOME).await;
        let from = fleet.oracle.now();
        let dump = old.dump("postgres");
        fleet.works(SOME).await;
        let lost = Lost { from, to: fleet.oracle.now() };
        old.kill().await;
        new.restore(&dump, "postgres");
        relay.lead_to(&new.authority());
        fleet.works(SOME).await;
        no_fault_is_found("restored dump", round, fleet, Some(lost)).await;
    }
}

/// A base backup is recovered to a point in time, after which the fleet had gone on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_recovery_to_a_point_in_time() {
    for round in 1..=rounds() {
        let old = Server::own().await;
        let relay = Relay::to(&old.authority()).await;
        let fleet = Fleet::start(&pair::url(&[&relay.authority()], "?replication=synchronous")).await;
        let backup = old.backup();
        fleet.works(SOME).await;
        let from = fleet.oracle.now();
        old.sql("SELECT pg_create_restore_point('before the accident')").await;
        fleet.works(SOME).await;
        old.sql("SELECT pg_switch_wal()").await;
        let lost = Lost { from, to: fleet.oracle.now() };
        old.kill().await;
        let recovered = backup.recovered_to("before the accident", &old).await;
        relay.lead_to(&recovered.authority());
        fleet.works(SOME).await;
        no_fault_is_found("point in time", round, fleet, Some(lost)).await;
    }
}

/// The server is killed and started again, with what it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_restarted() {
    for round in 1..=rounds() {
        let server = Server::own().await;
        let fleet = Fleet::start(&server.url("postgres")).await;
        fleet.works(SOME).await;
        server.restart().await;
        fleet.works(SOME).await;
        no_fault_is_found("restarted", round, fleet, None).await;
    }
}

/// The network is cut in one direction for longer than a lease: what is asked does not come through, or what is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_network_that_is_cut_in_one_direction() {
    for round in 1..=rounds() {
        let server = Server::own().await;
        let relay = Relay::to(&server.authority()).await;
        let fleet = Fleet::start(&pair::url(&[&relay.authority()], "")).await;
        fleet.works(SOME).await;
        relay.cut(if round % 2 == 0 { Way::ToServer } else { Way::ToPrograms });
        fleet.passes(outage_ms()).await;
        relay.heal();
        fleet.works(SOME).await;
        no_fault_is_found("cut", round, fleet, None).await;
    }
}
