//! A listener of events: it goes on from its position, and begins where it is told to when history was cut.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use windlass::core::event::{Event, Position, What};
use windlass::world::{RealWorld, World};
use windlass::{JobId, Store, StoreError};

/// What it heard.
#[derive(Default)]
pub struct Heard(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    at: Option<Position>,
    completed: HashSet<JobId>,
    resets: usize,
    wrong: Vec<String>,
}

impl Heard {
    /// Listens until it is told to stop.
    pub async fn listen(self: Arc<Self>, store: Arc<dyn Store>, stop: impl Future<Output = ()> + Send) {
        let world = RealWorld::new();
        let listening = async {
            loop {
                let at = self.inner().at;
                let answer = store.events(at, 500).await;
                if !self.inner().hear(answer) {
                    world.sleep_ms(50).await;
                }
            }
        };
        tokio::select! {
            () = listening => {}
            () = stop => {}
        }
    }

    /// Whether it was told of the end of all these.
    pub fn has_heard(&self, completed: &HashSet<JobId>) -> bool {
        self.inner().completed.is_superset(completed)
    }

    /// What was wrong with what it heard.
    pub fn judge(&self, history_was_cut: bool) -> Vec<String> {
        let inner = self.inner();
        let silent = history_was_cut && inner.resets == 0;
        let silent = silent.then(|| "the listener was not told that history was cut".to_owned());
        inner.wrong.iter().cloned().chain(silent).collect()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Hears an answer. Whether there may be more at once.
    fn hear(&mut self, answer: Result<Vec<Event>, StoreError>) -> bool {
        match answer {
            Ok(events) => {
                let more = !events.is_empty();
                events.into_iter().for_each(|event| self.hear_one(event));
                more
            }
            Err(StoreError::AnotherEpoch(begin)) => {
                (self.resets, self.at) = (self.resets + 1, Some(begin));
                // What was heard before may be of commits that are lost; what is kept is told once more.
                self.completed.clear();
                true
            }
            Err(error) => {
                if !error.is_transient() {
                    self.wrong.push(format!("the listener was told: {error}"));
                }
                false
            }
        }
    }

    fn hear_one(&mut self, event: Event) {
        if let Some(at) = self.at.filter(|at| !event.position.follows(*at)) {
            self.wrong.push(format!("the listener was at {at} and heard {}", event.position));
        }
        self.at = Some(event.position);
        if event.what == What::Completed {
            self.completed.extend(event.jobs);
        }
    }
}
