//! The same under Patroni, which decides by itself who is the primary. Each takes longer than a minute: `./test --full` runs them.

use windlass_testkit::postgres::patroni::Patroni;

use crate::fleet::Fleet;
use crate::{SOME, no_fault_is_found, pair, rounds};

async fn start() -> (Patroni, Fleet) {
    let cluster = Patroni::start().await;
    let url = pair::url(&[&cluster.authority()], "?replication=synchronous");
    let fleet = Fleet::start(&url).await;
    fleet.works(SOME).await;
    (cluster, fleet)
}

/// Waits for another primary than `old`, and says how long an enqueue took that was asked for since the fault.
async fn moved(what: &str, round: u32, cluster: &Patroni, fleet: &Fleet, old: usize) {
    let (fault_at, asked) = (fleet.oracle.now_ms(), fleet.asks());
    cluster.primary_but(Some(old)).await;
    let (answers_at, accepted_at) = (fleet.oracle.now_ms(), asked.await.expect("an answer"));
    let after = accepted_at.saturating_sub(answers_at);
    let primary = answers_at - fault_at;
    eprintln!("{what}, round {round}: a primary after {primary} ms, the first enqueue {after} ms after that");
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
