//! Where lines go: the console, a file, or both, as `NODE_ENV` says.

mod file;
mod line;

use std::io::Write;
use std::sync::Arc;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use windlass_engine::core::time::Clock;

use crate::settings::{LogSettings, Mode, Settings};
use file::LogFile;

/// Begins to log. What others log (HTTP, the engine) is shown from warnings on.
pub(crate) fn start(settings: &Settings, clock: Arc<dyn Clock>) {
    let (console, file, level) = match settings.mode {
        Mode::Development => (true, false, Level::DEBUG),
        Mode::Testing => (true, true, Level::INFO),
        Mode::Production => (false, true, Level::INFO),
    };
    let file = file.then(|| LogFile::new(&settings.log));
    let lines = Lines { console, file, level, clock };
    // Only a test could have begun before; then its own log stays.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Writes one error to the log file alone: for a program that does not start.
pub(crate) fn last_words(settings: &LogSettings, text: &str, clock: &dyn Clock) {
    let line = line::plain(clock.wall(), &Level::ERROR, text);
    LogFile::new(settings).write(&line);
}

struct Lines {
    console: bool,
    file: Option<LogFile>,
    level: Level,
    clock: Arc<dyn Clock>,
}

impl Lines {
    fn admits(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target().starts_with("windlass");
        *metadata.level() <= if own { self.level } else { Level::WARN }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.admits(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = line::of_event(self.clock.wall(), event);
        if self.console {
            // Should nobody read it, the program goes on all the same.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        if let Some(file) = &self.file {
            file.write(&line);
        }
    }
}
