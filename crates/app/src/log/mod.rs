//! The log of an app: one collector of what was said, a form that an app may
//! choose, and places where lines go.

mod collector;
mod file;
mod form;
mod line;
mod out;

use std::sync::Arc;

use tracing::{Level, Metadata};
use tracing_subscriber::layer::SubscriberExt;
use windlass_engine::core::time::Clock;

pub use collector::Collector;
pub use file::{FileLimits, LogFile};
pub use form::{Form, Json, Lines, LogForm};
pub use line::{Fields, Line};
pub use out::Out;

/// Whether something is written, by where it was said and how loudly.
type Admits = Box<dyn Fn(&Metadata<'_>) -> bool + Send + Sync>;

/// A log that is about to begin.
pub struct Log {
    form: Box<dyn Form>,
    outs: Vec<Box<dyn Out>>,
    admits: Admits,
    clock: Arc<dyn Clock>,
    quiet_panics: bool,
}

impl Log {
    /// A log in a form. It goes nowhere until [`Log::out`] says so, and admits
    /// what Windlass and its apps say from `INFO` on, and what others say from
    /// `WARN` on.
    pub fn new(form: impl Form, clock: Arc<dyn Clock>) -> Self {
        let log = Self {
            form: Box::new(form),
            outs: Vec::new(),
            admits: Box::new(|_| true),
            clock,
            quiet_panics: false,
        };
        log.own("windlass")
    }

    /// The same for an app whose modules begin otherwise: `module_path!()`.
    #[must_use]
    pub fn own(self, beginning: &'static str) -> Self {
        self.admit(move |metadata| {
            let target = metadata.target();
            let own = target.starts_with("windlass") || target.starts_with(beginning);
            *metadata.level() <= if own { Level::INFO } else { Level::WARN }
        })
    }

    /// For an app whose door is asked all the time: that somebody asked is worth a line only to whoever looks for a
    /// fault, with `debug`.
    #[must_use]
    pub fn without_callers(self, debug: bool) -> Self {
        self.admit(move |metadata| {
            let target = metadata.target();
            let own = target.starts_with("windlass") && (debug || !target.starts_with("windlass_app::door"));
            let level = match (own, debug) {
                (true, true) => Level::DEBUG,
                (true, false) => Level::INFO,
                (false, _) => Level::WARN,
            };
            *metadata.level() <= level
        })
    }

    /// Lines go there, too.
    #[must_use]
    pub fn out(mut self, out: impl Out) -> Self {
        self.outs.push(Box::new(out));
        self
    }

    /// Writes only what this says.
    #[must_use]
    pub fn admit(mut self, admits: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.admits = Box::new(admits);
        self
    }

    /// A panic says only where it was: for an app that handles what is known of people.
    #[must_use]
    pub fn quiet_panics(mut self) -> Self {
        self.quiet_panics = true;
        self
    }

    /// Begins, for the whole process. Somebody who logs already goes on to do so.
    pub fn start(self) {
        if self.quiet_panics {
            quiet_panics();
        }
        let layer = self.collector();
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
    }

    /// The same as a layer, for a test that listens for itself.
    pub fn collector(self) -> Collector {
        let Self { form, outs, admits, clock, quiet_panics: _ } = self;
        Collector { form, outs, admits, clock }
    }
}

/// What a panic says may hold a name; only where it was is told.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        tracing::error!(place, "Panic");
    }));
}
