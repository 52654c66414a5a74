//! Waiting for the world outside: a server that starts, an event that becomes
//! visible. The one place in the tests that lets real time pass.

use std::future::Future;
use std::time::Duration;

/// How often [`eventually`] asks before it gives up: about 30 seconds.
const TRIES_MAX: u32 = 320;

/// Asks until there is an answer, with growing pauses, for half a minute at
/// most. Panics with `what` when there is none.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl FnMut() -> F) -> T {
    match answered(ask).await {
        Some(answer) => answer,
        None => panic!("waited 30 seconds in vain: {what}"),
    }
}

/// As [`eventually`], but nothing is an answer too.
pub async fn answered<T, F: Future<Output = Option<T>>>(ask: impl FnMut() -> F) -> Option<T> {
    answered_within(TRIES_MAX, ask).await
}

/// As [`answered`], but asks only so many times.
pub async fn answered_within<T, F: Future<Output = Option<T>>>(
    tries: u32,
    mut ask: impl FnMut() -> F,
) -> Option<T> {
    for at in 0..tries {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        pause(Duration::from_millis(u64::from(at + 1).min(100))).await;
    }
    None
}

#[expect(clippy::disallowed_methods, reason = "a server outside cannot be stepped; the wait is bounded")]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}
