//! What the screen knows: the newest look, and what happened in the last minute.

use std::collections::{BTreeMap, VecDeque};

use windlass_engine::core::event::What;
use windlass_engine::core::id::QueueName;
use windlass_engine::core::query::QueueStatus;

use super::model::Look;

/// How many seconds the charts go back.
pub const SECONDS: usize = 60;

/// Everything that is drawn.
#[derive(Debug)]
pub struct Screen {
    /// What is looked at.
    pub target: String,
    /// The newest look.
    pub look: Option<Look>,
    /// Why the newest look failed; the one before stays on the screen.
    pub trouble: Option<String>,
    /// The queue that the keys act on.
    pub selected: usize,
    /// Whether the keys are shown.
    pub help: bool,
    /// What the last key did.
    pub said: Option<String>,
    seconds: VecDeque<Second>,
}

/// What happened in one second.
#[derive(Debug, Default, Clone)]
struct Second {
    done: u64,
    failed: u64,
    by_queue: BTreeMap<QueueName, u64>,
}

impl Screen {
    /// A screen that has not looked yet.
    pub fn new(target: String) -> Self {
        let (look, trouble, said) = (None, None, None);
        Self { target, look, trouble, selected: 0, help: false, said, seconds: VecDeque::new() }
    }

    /// Takes a new look.
    pub fn see(&mut self, look: Look) {
        self.trouble = None;
        if let Some(happened) = &look.happened {
            let mut second = Second::default();
            for (queue, what, count) in happened {
                match what {
                    What::Completed => {
                        second.done += count;
                        *second.by_queue.entry(queue.clone()).or_default() += count;
                    }
                    What::Failed | What::Retrying | What::Crashed => second.failed += count,
                    _ => {}
                }
            }
            self.seconds.push_back(second);
            if self.seconds.len() > SECONDS {
                self.seconds.pop_front();
            }
        }
        self.selected = self.selected.min(look.queues.len().saturating_sub(1));
        self.look = Some(look);
    }

    /// The queue that the keys act on.
    pub fn queue(&self) -> Option<&QueueStatus> {
        self.look.as_ref()?.queues.get(self.selected)
    }

    /// Moves to another queue.
    pub fn go(&mut self, by: isize) {
        let last = self.look.as_ref().map_or(0, |look| look.queues.len().saturating_sub(1));
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Jobs completed in each of the last seconds, oldest first.
    pub fn done(&self) -> Vec<u64> {
        self.seconds.iter().map(|second| second.done).collect()
    }

    /// Attempts that failed in each of the last seconds, oldest first.
    pub fn failed(&self) -> Vec<u64> {
        self.seconds.iter().map(|second| second.failed).collect()
    }

    /// Jobs of a queue completed per second, over the last ten seconds.
    pub fn pace(&self, queue: &QueueName) -> Option<f64> {
        let lately: Vec<&Second> = self.seconds.iter().rev().take(10).collect();
        let done: u64 = lately.iter().filter_map(|second| second.by_queue.get(queue)).sum();
        (!lately.is_empty()).then(|| done as f64 / lately.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use windlass_engine::core::policy::queue::QueuePolicy;
    use windlass_engine::core::time::Time;

    use super::*;

    fn look(queues: &[&str], happened: Option<Vec<(QueueName, What, u64)>>) -> Look {
        let queue = |name: &&str| QueueStatus {
            name: QueueName::new(*name).unwrap(),
            policy: QueuePolicy::default(),
            paused: false,
            queued: 0,
            running: 0,
            oldest_due: None,
        };
        let queues = queues.iter().map(queue).collect();
        let at = Time::from_ms(0);
        Look { at, queues, workers: 0, slots: 0, running: vec![], failures: vec![], happened }
    }

    #[test]
    fn a_minute_is_kept_and_no_more() {
        let mut screen = Screen::new("x".into());
        let queue = QueueName::default();
        for n in 0..100 {
            let happened = vec![(queue.clone(), What::Completed, n), (queue.clone(), What::Retrying, 1)];
            screen.see(look(&["default"], Some(happened)));
        }
        assert_eq!(screen.done(), (40..100).collect::<Vec<u64>>());
        assert_eq!(screen.failed(), [1; SECONDS]);
        assert_eq!(screen.pace(&queue), Some(94.5));
    }

    #[test]
    fn the_selected_queue_stays_among_the_queues() {
        let mut screen = Screen::new("x".into());
        assert!(screen.queue().is_none());
        screen.see(look(&["a", "b", "c"], None));
        screen.go(5);
        assert_eq!(screen.queue().unwrap().name.as_str(), "c");
        screen.see(look(&["a", "b"], None));
        assert_eq!(screen.queue().unwrap().name.as_str(), "b");
        screen.go(-9);
        assert_eq!(screen.queue().unwrap().name.as_str(), "a");
        assert_eq!(screen.pace(&QueueName::default()), None, "nobody said what happened");
    }
}
