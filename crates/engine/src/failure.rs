//! How a handler says that it did not succeed.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use windlass_core::error::{Invalid, StoreError};
use windlass_core::job::Start;
use windlass_core::transition::Outcome;

use crate::shelf::ShelfError;

/// Any error at all.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why an attempt did not succeed, and what should follow.
///
/// Any error becomes one by `?` (also `anyhow::Error`, boxed errors and plain
/// text), and means: try again by the ladder. [`OrFail`] says otherwise on the
/// spot.
///
/// ```
/// use windlass_engine::{Failure, OrFail};
///
/// fn parse(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse::<u32>()?)
/// }
/// fn parse_once(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse::<u32>().permanent()?)
/// }
/// assert!(parse("12").is_ok());
/// assert!(matches!(parse("twelve"), Err(Failure::Retry { .. })));
/// assert!(matches!(parse_once("twelve"), Err(Failure::Permanent { .. })));
/// ```
///
/// It is no [`std::error::Error`] itself, as `anyhow::Error` is none, so that
/// everything else can become one; see [`Failure::source`] and
/// [`Failure::into_error`].
#[derive(Debug)]
pub enum Failure {
    /// Try again, by the ladder or after a given time. Costs an attempt.
    Retry {
        /// What went wrong. Its text is stored with the job: nothing secret in here.
        error: BoxError,
        /// When to try again, instead of the ladder's delay.
        after: Option<Duration>,
    },
    /// Go on later. Costs no attempt.
    Park {
        /// For how long.
        after: Duration,
        /// What it waits for, if that was an error. Layers see it; it is stored and logged nowhere, since nothing has failed.
        /// What people should read of it is said by [`Context::log`](crate::Context::log).
        error: Option<BoxError>,
    },
    /// Trying again is of no use.
    Permanent {
        /// What went wrong. Its text is stored with the job: nothing secret in here.
        error: BoxError,
    },
    /// The handler stopped because it was asked to cancel.
    Canceled,
    /// The handler stopped because the worker shuts down; it costs no attempt.
    Released,
    /// The lease is lost: somebody else has the job now, or will. Nothing more
    /// may be written.
    LeaseLost,
}

impl Failure {
    /// Try again, by the ladder.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::Retry { error: error.into(), after: None }
    }

    /// Try again after `after` (an upstream's Retry-After). Costs an attempt.
    pub fn retry_after(error: impl Into<BoxError>, after: Duration) -> Self {
        Self::Retry { error: error.into(), after: Some(after) }
    }

    /// Go on after `after`. Costs no attempt.
    pub fn park(after: Duration) -> Self {
        Self::Park { after, error: None }
    }

    /// Trying again is of no use.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::Permanent { error: error.into() }
    }

    /// The error behind it, if there is one.
    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match self {
            Self::Retry { error, .. } | Self::Permanent { error } | Self::Park { error: Some(error), .. } => {
                Some(&**error)
            }
            Self::Park { error: None, .. } | Self::Canceled | Self::Released | Self::LeaseLost => None,
        }
    }

    /// As an error: the one behind it, or what it says.
    pub fn into_error(self) -> BoxError {
        let text = self.to_string();
        match self {
            Self::Retry { error, .. } | Self::Permanent { error } | Self::Park { error: Some(error), .. } => {
                error
            }
            Self::Park { error: None, .. } | Self::Canceled | Self::Released | Self::LeaseLost => text.into(),
        }
    }

    /// The same error with another meaning; that the handler has to stop has one meaning alone.
    fn meaning(self, means: impl FnOnce(BoxError) -> Self) -> Self {
        match self {
            stop @ (Self::Canceled | Self::Released | Self::LeaseLost) => stop,
            failure => means(failure.into_error()),
        }
    }

    /// What to settle the attempt with; nothing when nothing may be written.
    pub(crate) fn outcome(self, ladder_ms: Option<u64>) -> Option<Outcome> {
        Some(match self {
            Self::Retry { error, after } => {
                let after_ms = after.map(as_ms).or(ladder_ms);
                Outcome::Retry { error: chain(&*error), when: after_ms.map(Start::AfterMs) }
            }
            Self::Park { after, .. } => Outcome::Parked { until: Start::AfterMs(as_ms(after)) },
            Self::Permanent { error } => Outcome::Failed { error: chain(&*error) },
            Self::Canceled => Outcome::Canceled,
            Self::Released => Outcome::Released,
            Self::LeaseLost => return None,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry { error, .. } | Self::Permanent { error } => f.write_str(&chain(&**error)),
            Self::Park { after, error: Some(error) } => {
                write!(f, "parked for {after:?}: {}", chain(&**error))
            }
            Self::Park { after, error: None } => write!(f, "parked for {after:?}"),
            Self::Canceled => f.write_str("canceled"),
            Self::Released => f.write_str("given back: the worker shuts down"),
            Self::LeaseLost => f.write_str("the lease is lost"),
        }
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        if is_lost_lease(&*error) {
            Self::LeaseLost
        } else if is_hopeless(&*error) {
            Self::Permanent { error }
        } else {
            Self::Retry { error, after: None }
        }
    }
}

/// Says on the spot what an error means for the attempt, on any result whose error becomes a [`Failure`] by `?`. On one
/// that is a failure already, such as that of a step, what it said before is replaced; that the handler has to stop
/// (a cancel, a shutdown, a lost lease) stays what it is.
///
/// ```
/// use std::time::Duration;
/// use windlass_engine::{Failure, OrFail};
///
/// async fn send(to: &str) -> Result<(), Failure> {
///     let port: u16 = to.parse().permanent()?;
///     std::net::TcpStream::connect(("127.0.0.1", port)).retry_after(Duration::from_secs(90))?;
///     Ok(())
/// }
/// ```
pub trait OrFail<T> {
    /// The error ends the job: trying again is of no use.
    fn permanent(self) -> Result<T, Failure>;

    /// The error is tried again after `after`, instead of the ladder's delay. Costs an attempt.
    fn retry_after(self, after: Duration) -> Result<T, Failure>;

    /// The job goes on after `after`. Costs no attempt.
    fn park(self, after: Duration) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> OrFail<T> for Result<T, E> {
    fn permanent(self) -> Result<T, Failure> {
        self.map_err(|error| error.into().meaning(Failure::permanent))
    }

    fn retry_after(self, after: Duration) -> Result<T, Failure> {
        self.map_err(|error| error.into().meaning(|error| Failure::retry_after(error, after)))
    }

    fn park(self, after: Duration) -> Result<T, Failure> {
        self.map_err(|error| error.into().meaning(|error| Failure::Park { after, error: Some(error) }))
    }
}

fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A write of records found that somebody else has the job, or will.
fn is_lost_lease(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|error| matches!(error.downcast_ref(), Some(ShelfError::LeaseLost)))
}

/// What no attempt can change is not tried again.
fn is_hopeless(error: &(dyn Error + 'static)) -> bool {
    let hopeless = |error: &(dyn Error + 'static)| match error.downcast_ref() {
        // Its own source is the source of the error inside, which is thus not met.
        Some(ShelfError::Store(error)) => !error.is_transient(),
        Some(ShelfError::Unreadable { .. }) => true,
        _ => {
            error.is::<Invalid>()
                || error.downcast_ref::<StoreError>().is_some_and(|error| !error.is_transient())
        }
    };
    causes(error).any(hopeless)
}

/// An error with its causes, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let said = cause.to_string();
        // Many errors repeat their cause in their own words.
        if text.is_empty() {
            text = said;
        } else if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
    }
    text
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retried(failed: Result<(), Failure>) -> String {
        match failed {
            Err(Failure::Retry { error, after: None }) => chain(&*error),
            other => panic!("not a plain retry: {other:?}"),
        }
    }

    #[test]
    fn anything_becomes_a_failure() {
        let io = || std::io::Error::other("no line");
        assert_eq!(retried((|| Err(io())?)()), "no line");
        assert_eq!(retried((|| Err("words")?)()), "words");
        assert_eq!(retried((|| Err(format!("{}", 7))?)()), "7");
        assert_eq!(retried((|| Err(BoxError::from(io()))?)()), "no line");
        assert_eq!(retried((|| Err(anyhow::Error::new(io()).context("asking"))?)()), "asking: no line");
    }

    #[test]
    fn what_cannot_change_is_permanent() {
        let invalid = || Invalid::new("payload", "is too large");
        let failed: Failure = invalid().into();
        assert!(matches!(failed, Failure::Permanent { .. }));
        let failed: Failure = anyhow::Error::new(invalid()).context("enqueueing").into();
        assert!(matches!(failed, Failure::Permanent { .. }), "also behind a context");
        let failed: Failure = ShelfError::from(invalid()).into();
        assert!(matches!(failed, Failure::Permanent { .. }), "also of a shelf");
    }

    #[test]
    fn a_lost_lease_stays_one() {
        assert!(matches!(Failure::from(ShelfError::LeaseLost), Failure::LeaseLost));
        let behind = anyhow::Error::new(ShelfError::LeaseLost).context("storing the page");
        assert!(matches!(Failure::from(behind), Failure::LeaseLost));
        let away = ShelfError::Store(StoreError::Unavailable("away".into()));
        assert_eq!(retried((|| Err(away)?)()), StoreError::Unavailable("away".into()).to_string());
    }

    #[test]
    fn said_on_the_spot() {
        let failed = || Err::<(), _>(std::io::Error::other("busy"));
        let wait = Duration::from_secs(9);
        assert!(matches!(failed().permanent(), Err(Failure::Permanent { .. })));
        assert!(
            matches!(failed().retry_after(wait), Err(Failure::Retry { after: Some(after), .. }) if after == wait)
        );
        let Err(parked) = failed().park(wait) else { panic!("an error was taken for success") };
        assert_eq!(parked.to_string(), "parked for 9s: busy");
        assert_eq!(parked.source().unwrap().to_string(), "busy");
        assert_eq!(parked.into_error().to_string(), "busy");
        assert_eq!(Failure::Canceled.into_error().to_string(), "canceled");
    }

    /// Also on what a step or a function of the handler's own returned, which is a failure already.
    #[test]
    fn said_on_the_spot_of_a_failure() {
        let failed = |failure: Failure| Err::<(), _>(failure);
        let wait = Duration::from_secs(9);
        for failure in [
            failed(Failure::retry("busy")).permanent(),
            failed(Failure::permanent("busy")).retry_after(wait),
            failed(Failure::retry_after("busy", wait * 2)).park(wait),
        ] {
            assert!(failure.is_err_and(|failure| failure.source().unwrap().to_string() == "busy"));
        }
        assert!(matches!(failed(Failure::retry("x")).permanent(), Err(Failure::Permanent { .. })));
        assert!(matches!(failed(Failure::park(wait)).retry_after(wait), Err(Failure::Retry { .. })));
        // Whoever has to stop stops.
        assert!(matches!(failed(Failure::Canceled).permanent(), Err(Failure::Canceled)));
        assert!(matches!(failed(Failure::Released).retry_after(wait), Err(Failure::Released)));
        assert!(matches!(Err::<(), _>(ShelfError::LeaseLost).permanent(), Err(Failure::LeaseLost)));
    }
}
