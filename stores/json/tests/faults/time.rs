//! Clocks that jump, machines that sleep or start anew.

use windlass_core::store::{ClaimRequest, LeaseRef, Source, Store};
use windlass_core::time::Clock;
use windlass_json::{JsonStore, Options};
use windlass_testkit::conformance::scene::{budget, id, job, queue, worker};

use super::Place;

const TWO_HOURS_MS: i64 = 7_200_000;

async fn hold(store: &JsonStore) -> LeaseRef {
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let request = ClaimRequest {
        request_id: id(1).0,
        worker: worker("w"),
        queues: vec![queue("q")],
        kinds: None,
        limit: 1,
        lease_ms: None,
    };
    store.claim(request).await.expect("claim").leases[0].lease_ref()
}

/// Jobs may go by the day on which they were accepted: at the start, and while
/// the store is open. Only finished ones do.
#[tokio::test]
async fn jobs_go_by_the_day_they_were_accepted() {
    const DAY_MS: u64 = 86_400_000;
    let place = Place::new();
    let options = || Options { age_ms_max: Some(30 * DAY_MS), ..place.options() };
    let store = JsonStore::open_with(place.file(), options()).await.expect("the store opens");
    store.enqueue(vec![job(1), job(2), job(3)]).await.expect("enqueue");
    store.cancel(id(1)).await.expect("cancel");
    place.clock.advance(29 * DAY_MS);
    store.cancel(id(2)).await.expect("cancel");
    assert_eq!(store.prune().await.expect("prune"), 0);
    place.clock.advance(DAY_MS + 1);
    assert_eq!(store.prune().await.expect("prune"), 2, "also the one that has only just ended");
    assert!(store.get(id(3)).await.expect("get").is_some(), "what is not over stays");
    store.cancel(id(3)).await.expect("cancel");
    drop(store);
    let store = JsonStore::open_with(place.file(), options()).await.expect("the store opens");
    assert!(store.get(id(3)).await.expect("get").is_none(), "a start looks, too");
}

async fn expired(store: &JsonStore) -> usize {
    store.expire().await.expect("expire").jobs.len()
}

/// Fault 30: a wall clock that jumps two hours, either way, neither ends a
/// lease early nor lets it live for ever; the store's time follows.
#[tokio::test]
async fn fault_30_the_wall_clock_jumps() {
    for jump in [TWO_HOURS_MS, -TWO_HOURS_MS] {
        let place = Place::new();
        let store = place.opened().await;
        let lease = hold(&store).await;
        store.cool_down(budget("b"), 10_000).await.expect("cool_down");
        place.clock.advance(10_000);
        place.clock.jump_wall(jump);
        assert_eq!(expired(&store).await, 0, "jump {jump}: not early");
        assert_eq!(store.now().await.expect("now"), place.clock.wall(), "jump {jump}: the store follows");
        assert_eq!(store.renew(vec![lease]).await.expect("renew").renewed, [id(1)]);
        assert_eq!(
            store.budgets().await.expect("budgets")[0].free_at,
            None,
            "jump {jump}: it has cooled down"
        );
        drop(store);
        let store = place.opened().await;
        place.clock.advance(20_000);
        assert_eq!(expired(&store).await, 0, "jump {jump}: the first look");
        place.clock.jump_wall(-jump);
        place.clock.advance(9_999);
        assert_eq!(expired(&store).await, 0, "jump {jump}: not early after a restart");
        place.clock.advance(1);
        assert_eq!(expired(&store).await, 1, "jump {jump}: not late, since the mark has moved along");
    }
}

/// Fault 30: a jump while the program was not running is no different.
#[tokio::test]
async fn fault_30_a_jump_between_two_runs() {
    for jump in [TWO_HOURS_MS, -TWO_HOURS_MS] {
        let place = Place::new();
        let store = place.opened().await;
        hold(&store).await;
        drop(store);
        place.clock.jump_wall(jump);
        place.clock.advance(20_000);
        let store = place.opened().await;
        assert_eq!(expired(&store).await, 0, "jump {jump}: the first look");
        place.clock.advance(9_999);
        assert_eq!(expired(&store).await, 0, "jump {jump}: not early");
        place.clock.advance(1);
        assert_eq!(expired(&store).await, 1, "jump {jump}: not late");
    }
}

/// Fault 32: while a machine sleeps, its leases run on: sleep is time. Who was asleep has a wait's time to renew.
#[tokio::test]
async fn fault_32_suspend_counts() {
    let place = Place::new();
    let store = place.opened().await;
    hold(&store).await;
    place.clock.advance(3_600_000);
    assert_eq!(expired(&store).await, 0, "the first look");
    place.clock.advance(10_000);
    assert_eq!(expired(&store).await, 1);
}

/// Fault 32: after a new start of the machine time goes on by the wall clock,
/// but never before what is in the store; a lease ends within its length.
#[tokio::test]
async fn fault_32_the_machine_starts_anew() {
    for jump in [0, 60_000, -TWO_HOURS_MS] {
        let place = Place::new();
        let store = place.opened().await;
        hold(&store).await;
        let before = store.now().await.expect("now");
        drop(store);
        place.clock.reboot();
        place.clock.jump_wall(jump);
        let store = place.opened().await;
        assert!(store.now().await.expect("now") >= before, "jump {jump}: time went back");
        expired(&store).await;
        place.clock.advance(20_000);
        let early = expired(&store).await;
        place.clock.advance(10_000);
        assert_eq!(early + expired(&store).await, 1, "jump {jump}: a lease for ever");
    }
}
