//! Polling a version number, where nobody can be told: behind a transaction pooler no session is ours, so that LISTEN does not
//! work. One small read finds out whether anybody has enqueued or told of work, in place of all those who would ask for work,
//! lost leases, schedules and events.
//!
//! What is read are sequences, which do not wait for a commit: an enqueue in a caller's own transaction is seen before its jobs
//! are. So whoever works is called again a few times ([`AGAIN`]). Jobs of a transaction that is open for longer are found
//! when it is asked for work the next time.

use std::time::Duration;

use windlass_core::wake::Work;

use crate::error::Fault;
use crate::hosts::{SIGN_OF_LIFE, pause};
use crate::link::{Lines, Link};
use crate::wake::{Callbacks, Hearing};

/// How often it is read: 46 times a minute. An idle process does about ten other things in one, and is to stay under 60.
const READ_EVERY: Duration = Duration::from_millis(1_300);
/// After how many reads without a change those who work are called once more: about 1, 3, 4, 8, 16 and 32 s.
const AGAIN: [u32; 6] = [1, 2, 3, 6, 12, 25];

/// What the reads were up to now.
#[derive(Default)]
struct Reads {
    last: Option<String>,
    unchanged: u32,
}

impl Reads {
    /// Whether those who work are to be called after this read. The first one counts as a change: nobody knows what was
    /// before.
    fn calls(&mut self, news: String) -> bool {
        if self.last.as_ref() != Some(&news) {
            *self = Self { last: Some(news), unchanged: 0 };
            return true;
        }
        self.unchanged = self.unchanged.saturating_add(1);
        AGAIN.contains(&self.unchanged)
    }
}

/// Reads until it is dropped, and calls when there is a change.
pub(crate) async fn watch(lines: Lines, callbacks: &Callbacks, hearing: &Hearing) {
    let mut reads = Reads::default();
    loop {
        match tokio::time::timeout(SIGN_OF_LIFE, read(&lines)).await {
            Ok(Ok(news)) => {
                hearing.set(true);
                if reads.calls(news) {
                    callbacks.call(&Work::Anywhere);
                }
            }
            missed => {
                reads = Reads::default();
                if hearing.set(false) {
                    tracing::warn!(?missed, "cannot read whether there is new work; it is asked for");
                    // Whoever relied on being called asks for itself from here on.
                    callbacks.call(&Work::Anywhere);
                }
            }
        }
        pause(READ_EVERY).await;
    }
}

async fn read(lines: &Lines) -> Result<String, Fault> {
    let link = Link::of(lines).await?;
    Ok(link.row(sql!("event", "news"), &[]).await?.try_get(0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change calls, and so do some of the reads after it, farther and farther apart; one that comes meanwhile begins anew.
    #[test]
    fn a_change_calls_again_and_again() {
        let mut reads = Reads::default();
        let mut calls = |news: &str, count: usize| -> Vec<usize> {
            (0..count).filter(|_| reads.calls(news.to_owned())).collect()
        };
        assert_eq!(calls("1", 60), [0, 1, 2, 3, 6, 12, 25]);
        assert_eq!(calls("2", 5), [0, 1, 2, 3]);
        assert_eq!(calls("1", 8), [0, 1, 2, 3, 6]);
    }
}
