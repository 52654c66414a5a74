//! The same under Patroni, which decides by itself who is the primary. Each takes longer than a minute: `./test --full` runs them.

use windlass_testkit::postgres::patroni::{Mode, Patroni};

use crate::fleet::Fleet;
use crate::oracle::Lost;
use crate::{SOME, in_time, no_fault_is_found, pair, rounds};

async fn start() -> (Patroni, Fleet) {
    let cluster = Patroni::start(Mode::Synchronous).await;
    let url = pair::url(&[&cluster.authority()], "?replication=synchronous");
    let fleet = Fleet::start(&url).await;
    fleet.works(SOME).await;
    (cluster, fleet)
}

/// Waits for another primary than `old`; an enqueue that was asked for since the fault is answered in time after that.
async fn moved(what: &str, round: u32, cluster: &Patroni, fleet: &Fleet, old: usize) {
    let (fault_at, asked) = (fleet.oracle.now_ms(), fleet.asks());
    cluster.primary_but(Some(old)).await;
    let (answers_at, accepted_at) = (fleet.oracle.now_ms(), asked.await.expect("an answer"));
    in_time(what, round, fault_at, answers_at, accepted_at);
    fleet.works(SOME).await;
}

/// A node dies with everything on it, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_is_killed() {
    for round in 1..=rounds() {
        let (cluster, fleet) = start().await;
        let old = cluster.primary_but(None).await;
        cluster.kill(old).await;
        moved("Patroni, killed", round, &cluster, &fleet, old).await;
        cluster.revive(old);
        cluster.until_guarded().await;
        fleet.works(SOME).await;
        no_fault_is_found("Patroni, killed", round, fleet, None).await;
    }
}

/// A node freezes with everything on it, and goes on when another is the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_freezes() {
    for round in 1..=rounds() {
        let (cluster, fleet) = start().await;
        let old = cluster.primary_but(None).await;
        cluster.freeze(old);
        moved("Patroni, frozen", round, &cluster, &fleet, old).await;
        cluster.thaw(old);
        cluster.until_guarded().await;
        fleet.works(SOME).await;
        no_fault_is_found("Patroni, frozen", round, fleet, None).await;
    }
}

/// A node dies whose standby has not heard of the newest commits, and Patroni promotes that all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_is_killed_with_commits() {
    for round in 1..=rounds() {
        let cluster = Patroni::start(Mode::Asynchronous).await;
        let fleet = Fleet::start(&pair::url(&[&cluster.authority()], "")).await;
        fleet.works(SOME).await;
        let old = cluster.primary_but(None).await;
        let from = fleet.oracle.now();
        cluster.until_followed(old).await;
        cluster.stop_sending(old);
        fleet.works(SOME).await;
        let lost = Lost { from, to: fleet.oracle.now() };
        cluster.kill(old).await;
        moved("Patroni, killed with commits", round, &cluster, &fleet, old).await;
        no_fault_is_found("Patroni, killed with commits", round, fleet, Some(lost)).await;
    }
}

/// The standby takes over in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_switchover() {
    for round in 1..=rounds() {
        let (cluster, fleet) = start().await;
        let old = cluster.primary_but(None).await;
        cluster.switch_over();
        cluster.primary_but(Some(old)).await;
        fleet.works(SOME).await;
        cluster.until_guarded().await;
        no_fault_is_found("Patroni, switchover", round, fleet, None).await;
    }
}
