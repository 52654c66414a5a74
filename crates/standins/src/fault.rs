//! How a stand-in misbehaves, when it is told to.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::ask::Answer;

/// One way to misbehave.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing is answered until [`Faults::release`].
    HoldHead,
    /// The body stops after so many bytes until [`Faults::release`].
    HoldBody {
        /// How many bytes come before.
        after: usize,
    },
    /// The body never ends: one byte, a pause, one byte.
    Trickle {
        /// The pause.
        every: Duration,
    },
    /// The connection is closed before any answer.
    CutHead,
    /// The connection is closed within the body.
    CutBody {
        /// How many bytes come before.
        after: usize,
    },
    /// The right answer under another content type.
    Type(&'static str),
    /// A status instead of the answer, with `Retry-After` or without.
    Status(u16, Option<&'static str>),
    /// Another answer instead.
    Answer(Answer),
    /// A success whose body is noise.
    Garbage,
    /// A body of so many bytes.
    Huge(u64),
    /// A body that is small on the way and of so many bytes when it is unpacked.
    GzipBomb(u64),
    /// A redirect to a place.
    Redirect(u16, String),
    /// A redirect to a place that redirects, without end: leave it in place with [`Faults::always`].
    RedirectLoop,
}

/// The faults that are to come, first the scripted ones, then the lasting one.
#[derive(Debug)]
pub struct Faults {
    script: Mutex<(VecDeque<Option<Fault>>, Option<Fault>)>,
    released: watch::Sender<bool>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { script: Mutex::default(), released: watch::Sender::new(false) }
    }
}

impl Faults {
    /// One of the next requests meets this fault: the first for which none was pushed before.
    pub fn push(&self, fault: Fault) {
        self.change(|script| script.0.push_back(Some(fault)));
    }

    /// One of the next requests is answered rightly.
    pub fn push_ok(&self) {
        self.change(|script| script.0.push_back(None));
    }

    /// Every request after the scripted ones meets this fault.
    pub fn always(&self, fault: Fault) {
        self.change(|script| script.1 = Some(fault));
    }

    /// No more faults.
    pub fn clear(&self) {
        self.change(|script| *script = (VecDeque::new(), None));
    }

    /// Lets all go on that are held, now and later.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub(crate) fn next(&self) -> Option<Fault> {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.0.pop_front().unwrap_or_else(|| script.1.clone())
    }

    pub(crate) fn released(&self) -> watch::Receiver<bool> {
        self.released.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut (VecDeque<Option<Fault>>, Option<Fault>))) {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
