//! What is shared, what is seen, and what is undone, with a writer that a test
//! can hold back.

use std::sync::{Arc, Condvar, Mutex};

use windlass_core::error::StoreError;
use windlass_core::store::Store;
use windlass_json::{Content, JsonStore, Layout, Native, Options, Unreadable};
use windlass_testkit::conformance::scene::{dedupe, id, job, job_with, json};
use windlass_testkit::eventually::eventually;

use super::Place;

/// Our own layout behind a gate.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    moved: Condvar,
}

#[derive(Default, Clone, Copy)]
struct GateState {
    closed: bool,
    refuses: bool,
    written: u32,
    waiting: bool,
}

impl Gate {
    fn set(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.state.lock().expect("a gate"));
        self.moved.notify_all();
    }

    fn get(&self) -> GateState {
        *self.state.lock().expect("a gate")
    }
}

impl Layout for Gate {
    fn write(&self, content: &Content) -> Result<Vec<u8>, String> {
        let mut state = self.state.lock().expect("a gate");
        state.waiting = true;
        let mut state = self.moved.wait_while(state, |state| state.closed).expect("a gate");
        state.waiting = false;
        state.written += 1;
        if state.refuses { Err("the gate refuses".to_owned()) } else { Native.write(content) }
    }

    fn read(&self, bytes: &[u8]) -> Result<Content, Unreadable> {
        Native.read(bytes)
    }
}

async fn stage() -> (Place, Arc<Gate>, Arc<JsonStore>) {
    let (place, gate) = (Place::new(), Arc::new(Gate::default()));
    let options = Options { layout: gate.clone(), ..place.options() };
    let store = JsonStore::open_with(place.file(), options).await.expect("the store opens");
    (place, gate, store)
}

async fn writer_waits(gate: &Gate) {
    eventually("the writer waits at the gate", async || gate.get().waiting.then_some(())).await;
}

/// Changes that wait are written together; a read does not wait for the disk,
/// and does not show what is not there yet.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_changes_share_a_commit() {
    let (_place, gate, store) = stage().await;
    gate.set(|gate| gate.closed = true);
    let enqueue = |n: u128| {
        let store = store.clone();
        tokio::spawn(async move { store.enqueue(vec![job(n)]).await })
    };
    let first = enqueue(1);
    writer_waits(&gate).await;
    let others: Vec<_> = (2..=50).map(enqueue).collect();
    // Whoever is answered "it is there already" rests on a job that is not durable yet.
    let again = enqueue(1);
    assert!(store.get(id(1)).await.expect("a read does not wait").is_none());
    assert!(store.events(None, 10).await.expect("a read does not wait").is_empty());
    assert!(!first.is_finished() && !again.is_finished(), "answered before it was written");
    while store.drafted() < 50 {
        tokio::task::yield_now().await;
    }
    gate.set(|gate| gate.closed = false);
    for task in others.into_iter().chain([first, again]) {
        task.await.expect("a task").expect("enqueue");
    }
    assert_eq!(gate.get().written, 2, "one commit for the first, one for all others");
    assert!(store.get(id(50)).await.expect("get").is_some());
}

/// A change that could not be written is undone, with all that rests on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_is_undone() {
    let (_place, gate, store) = stage().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    gate.set(|gate| (gate.closed, gate.refuses) = (true, true));
    let once = |n| job_with(n, |spec| spec.dedupe_key = dedupe("once"));
    let spawn = |n| {
        let store = store.clone();
        tokio::spawn(async move { store.enqueue(vec![once(n)]).await })
    };
    let first = spawn(2);
    writer_waits(&gate).await;
    let second = spawn(3);
    while store.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    gate.set(|gate| gate.closed = false);
    for task in [first, second] {
        let error = task.await.expect("a task").expect_err("a refusal");
        assert!(matches!(error, StoreError::CannotWrite(_)), "{error}");
    }
    gate.set(|gate| gate.refuses = false);
    let changed = job_with(2, |spec| spec.payload = json("\"another\""));
    let answer = store.enqueue(vec![changed, once(3)]).await.expect("what was undone is in nobody's way");
    assert!(answer.iter().all(|answer| !answer.deduplicated));
}
