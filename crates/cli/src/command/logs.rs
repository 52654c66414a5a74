//! `windlass logs`: what a job said, as it says it.

use clap::Args;
use windlass_engine::core::log::{Log, LogPage};
use windlass_engine::world::{RealWorld, World};

use super::which::ShortId;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::wiring::open_place;

/// How often is looked for more.
const LOOK_MS: u64 = 500;

/// Whose.
#[derive(Debug, Args)]
#[command(
    after_help = "The last 64 KiB of each of the newest four attempts are kept, for a week.\n\nExamples:\n  \
    windlass logs 3fa9c21b\n  windlass logs 3fa9c21b -f"
)]
pub struct LogsArgs {
    /// The job's id, or its last digits
    id: ShortId,
    /// Go on until the job is over
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Shows it.
pub async fn run(args: LogsArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let id = args.id.resolve(&*store).await?;
    if store.get(id).await?.is_none() {
        eprintln!("there is no job {id}");
        return Ok(Code::NotFound);
    }
    let world = RealWorld::new();
    let mut shown = Shown::default();
    loop {
        // Asked first: what was said before the end is there when the end is.
        let over = store.get(id).await?.is_none_or(|job| job.state.name().is_final());
        let logs = store.logs(id).await?;
        if json {
            logs.iter().try_for_each(print_json)?;
            return Ok(Code::Done);
        }
        logs.iter().for_each(|page| shown.show(page));
        if !args.follow || over {
            if logs.is_empty() {
                eprintln!("it has said nothing{}", if over { "" } else { " yet; -f waits for it" });
            }
            return Ok(Code::Done);
        }
        world.sleep_ms(LOOK_MS).await;
    }
}

/// How much was shown.
#[derive(Default)]
struct Shown {
    fence: u64,
    bytes: u64,
}

impl Shown {
    fn show(&mut self, page: &LogPage) {
        use std::io::Write;
        let text = self.news(&page.log);
        // Nobody reads on: that is the end.
        if !text.is_empty() && write!(std::io::stdout(), "{}", spelled(&text)).is_err() {
            std::process::exit(0);
        }
    }

    /// What is new in the output of an attempt.
    fn news(&mut self, log: &Log) -> String {
        if log.fence < self.fence || (log.fence == self.fence && log.text.is_empty()) {
            return String::new();
        }
        let mut text = String::new();
        if log.fence != self.fence {
            if self.fence != 0 {
                text.push_str("--- next attempt ---\n");
            }
            *self = Self { fence: log.fence, bytes: 0 };
        }
        let missed = log.dropped.saturating_sub(self.bytes);
        if missed > 0 {
            text.push_str(&format!("… {missed} bytes are not kept …\n"));
        }
        let begin = usize::try_from(self.bytes.saturating_sub(log.dropped)).unwrap_or(usize::MAX);
        text.push_str(log.text.get(begin..).unwrap_or_default());
        self.bytes = log.dropped + log.text.len() as u64;
        text
    }
}

/// Lines stay lines; what could begin a command to the terminal is spelled out.
fn spelled(text: &str) -> String {
    let lines = text.split('\n').map(crate::output::plain);
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_shown() {
        let log = |fence, dropped, text: &str| Log { fence, dropped, text: text.to_owned() };
        let mut shown = Shown::default();
        assert_eq!(shown.news(&log(1, 0, "a\nb\n")), "a\nb\n");
        assert_eq!(shown.news(&log(1, 0, "a\nb\nc\n")), "c\n");
        assert_eq!(shown.news(&log(1, 4, "c\nd\n")), "d\n");
        assert_eq!(shown.news(&log(1, 10, "g\n")), "… 2 bytes are not kept …\ng\n");
        assert_eq!(shown.news(&log(2, 0, "x\n")), "--- next attempt ---\nx\n");
        assert_eq!(shown.news(&log(1, 10, "g\n")), "");
        assert_eq!(spelled("a\u{1b}[31m\nb"), "a\\u{1b}[31m\nb");
    }
}
