//! A Postgres that is killed, freezes, is promoted, restored, restarted or cut off, under load, with an oracle that stands outside
//! (`oracle.rs` says what it asks for). One round of each here, ten in `./test --full`.

mod fleet;
mod heard;
mod oracle;
mod pair;
mod patroni;
mod served;

use windlass_testkit::postgres::{Pooler, Server};
use windlass_testkit::relay::{Relay, Way};

use self::fleet::Fleet;
use self::oracle::Lost;
use self::pair::Pair;
use self::served::Served;

/// How many rounds of each fault; `./test --full` sets it.
fn rounds() -> u32 {
    std::env::var("WINDLASS_ROUNDS").map_or(1, |said| said.parse().expect("WINDLASS_ROUNDS is a number"))
}

/// Longer than a lease lasts; where there are many rounds, a minute.
fn outage_ms() -> u64 {
    if rounds() > 1 { 60_000 } else { u64::from(fleet::LEASE_MS) + 2_000 }
}

/// A host that freezes is left within this.
const LEFT_MS: u64 = 5_000;
/// The first enqueue is acknowledged within this after a new primary answers.
const ACCEPTED_MS: u64 = 3_000;
/// What the tests give beside that to a machine that has more to do than cores: a build that runs beside them holds up everybody
/// for a second at a time. What was measured is printed.
const SLACK_MS: u64 = 2_000;

/// Whether an enqueue that was asked for since a fault was acknowledged in time, on the boot clock of this machine.
fn in_time(what: &str, round: u32, fault_at: u64, answers_at: u64, accepted_at: u64) {
    let (after_fault, after) = (accepted_at - fault_at, accepted_at.saturating_sub(answers_at));
    let primary = answers_at - fault_at;
    eprintln!(
        "{what}, round {round}: a primary after {primary} ms, the first enqueue {after} ms after that, {after_fault} ms after the fault"
    );
    let latest = (fault_at + LEFT_MS).max(answers_at + ACCEPTED_MS) + SLACK_MS;
    assert!(accepted_at <= latest, "{what}, round {round}: {} ms too late", accepted_at - latest);
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
        let (fault_at, answers) = (fleet.oracle.now_ms(), fleet.notes_when(pair.standby.takes_writes()));
        pair.standby.promote();
        let answers_at = answers.await.expect("an answer");
        let accepted_at = asked.await.expect("an answer");
        in_time("killed", round, fault_at, answers_at, accepted_at);
        // Nothing has to be left here: no host is waited for that is silent.
        assert!(accepted_at <= answers_at + ACCEPTED_MS + SLACK_MS, "killed, round {round}");
        fleet.works(SOME).await;
        no_fault_is_found("killed", round, fleet, None).await;
    }
}

/// The same behind a transaction pooler, which knows one address: that leads to the standby once it takes writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_primary_behind_a_pooler_that_is_killed() {
    for round in 1..=rounds() {
        let pair = Pair::synchronous().await;
        let relay = Relay::to(&pair.primary.authority()).await;
        let pooler =
            Pooler::before(&relay.authority(), "default_pool_size = 8\nserver_login_retry = 1").await;
        let fleet = Fleet::start(&format!("{}?replication=synchronous", pooler.url("postgres"))).await;
        fleet.works(SOME).await;
        pair.primary.kill().await;
        let (fault_at, asked) = (fleet.oracle.now_ms(), fleet.asks());
        pair.standby.promote();
        relay.lead_to(&pair.standby.authority());
        let answers_at = fleet.oracle.now_ms();
        in_time("pooled, killed", round, fault_at, answers_at, asked.await.expect("an answer"));
        fleet.works(SOME).await;
        no_fault_is_found("pooled, killed", round, fleet, None).await;
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
        let (asked, answers) = (fleet.asks(), fleet.notes_when(pair.standby.takes_writes()));
        pair.standby.promote();
        let answers_at = answers.await.expect("an answer");
        in_time("frozen for good", round, frozen_at, answers_at, asked.await.expect("an answer"));
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
        let served = Served::start(&pair.url()).await;
        fleet.works(SOME).await;
        let from = fleet.oracle.now();
        pair.primary.until_followed_by(&pair.standby).await;
        pair.primary.stop_sending();
        fleet.works(SOME).await;
        let lost = Lost { from, to: fleet.oracle.now() };
        pair.primary.kill().await;
        pair.standby.promote();
        fleet.works(SOME).await;
        served.tells_of_another_epoch(&fleet).await;
        no_fault_is_found("lossy promotion", round, fleet, Some(lost)).await;
    }
}

/// A dump that was made under load is restored in another cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dump_that_is_restored() {
    for round in 1..=rounds() {
        let (old, new) = (Server::own().await, Server::own().await);
        let relay = Relay::to(&old.authority()).await;
        let url = pair::url(&[&relay.authority()], "");
        let fleet = Fleet::start(&url).await;
        let served = Served::start(&url).await;
        fleet.works(SOME).await;
        let from = fleet.oracle.now();
        let dump = old.dump("postgres");
        fleet.works(SOME).await;
        let lost = Lost { from, to: fleet.oracle.now() };
        old.kill().await;
        new.restore(&dump, "postgres");
        relay.lead_to(&new.authority());
        fleet.works(SOME).await;
        served.tells_of_another_epoch(&fleet).await;
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

/// The network is cut in one direction for longer than a lease, and then in the other: what is asked does not come through, and
/// what is answered does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_network_that_is_cut_in_one_direction() {
    for round in 1..=rounds() {
        let server = Server::own().await;
        let relay = Relay::to(&server.authority()).await;
        let fleet = Fleet::start(&pair::url(&[&relay.authority()], "")).await;
        fleet.works(SOME).await;
        for way in [Way::ToPrograms, Way::ToServer] {
            relay.cut(way);
            fleet.passes(outage_ms()).await;
            relay.heal();
            fleet.works(SOME).await;
        }
        no_fault_is_found("cut", round, fleet, None).await;
    }
}
