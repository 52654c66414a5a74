//! What the log of a crash test tells, and what it must not.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// What was written down, over all processes, in one order.
#[derive(Default)]
pub struct History {
    pub acked: Vec<String>,
    pub starts: u64,
    pub runs: u64,
    pub stored: u64,
    /// What must never be.
    pub wrong: Vec<String>,
}

impl History {
    pub fn read(log: &Path) -> Self {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let mut history = Self::default();
        let mut newest: HashMap<String, u64> = HashMap::new();
        let mut stored: HashSet<(String, String)> = HashSet::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["acked", id] => history.acked.push((*id).to_owned()),
                ["start", id, fence] => {
                    history.starts += 1;
                    history.fence(&mut newest, id, fence, true, line);
                }
                ["run", id, step, fence] => {
                    history.runs += 1;
                    history.fence(&mut newest, id, fence, false, line);
                    if stored.contains(&((*id).to_owned(), (*step).to_owned())) {
                        history.wrong.push(format!("a stored step was run again: {line}"));
                    }
                }
                ["stored", id, step, _] => {
                    history.stored += 1;
                    stored.insert(((*id).to_owned(), (*step).to_owned()));
                }
                // A line that a kill cut short.
                _ => {}
            }
        }
        history
    }

    /// Fences only rise; a start has one of its own.
    fn fence(&mut self, newest: &mut HashMap<String, u64>, id: &str, fence: &str, start: bool, line: &str) {
        let Ok(fence) = fence.parse::<u64>() else { return };
        let last = newest.insert(id.to_owned(), fence).unwrap_or(0);
        if fence < last || (start && fence == last) {
            self.wrong.push(format!("held twice: {line}, after fence {last}"));
        }
    }
}
