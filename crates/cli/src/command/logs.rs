//! `windlass logs`: what a job said, as it says it.

use clap::Args;
use windlass_engine::core::log::{Log, LogPage};
use windlass_engine::world::{RealWorld, World};
use windlass_report::words::{agreeing, counted};

use super::which::ShortId;
use crate::args::PlaceArgs;
use crate::exit::{Code, not_found};
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
    #[arg(add = crate::names::jobs())]
    id: ShortId,
    /// Go on until the job is over; with --json a line for each piece that is new
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
        return Err(not_found(format!("there is no job {id}; `windlass jobs` lists them")));
    }
    let world = RealWorld::new();
    let mut shown = Shown::default();
    loop {
        // Asked first: what was said before the end is there when the end is.
        let over = store.get(id).await?.is_none_or(|job| job.state.name().is_final());
        let logs = store.logs(id).await?;
        for page in &logs {
            match shown.next(&page.log) {
                Some((news, _)) if json => print_json(&LogPage { log: news, written_at: page.written_at })?,
                Some((news, before)) => show(&news, before),
                None => {}
            }
        }
        if !args.follow || over {
            if logs.is_empty() && !json {
                eprintln!("it has said nothing{}", if over { "" } else { " yet; -f waits for it" });
            }
            return Ok(Code::Done);
        }
        world.sleep_ms(LOOK_MS).await;
    }
}

/// Shows what is new as people read it.
fn show(news: &Log, before: Before) {
    use std::io::Write;
    // Nobody reads on: that is the end.
    if write!(std::io::stdout(), "{}", spelled(&written(news, before))).is_err() {
        std::process::exit(0);
    }
}

/// What is new, with what has to be known of what came before it.
fn written(news: &Log, before: Before) -> String {
    let missed = news.dropped.saturating_sub(before.bytes);
    let mut text = String::new();
    if before.another {
        text.push_str("--- next attempt ---\n");
    }
    if missed > 0 {
        let are = agreeing(missed, "is", "are");
        text.push_str(&format!("… {} {are} not kept …\n", counted(missed, "byte")));
    }
    text + &news.text
}

/// How much was shown.
#[derive(Default)]
struct Shown {
    fence: u64,
    bytes: u64,
}

/// What went before something that is new.
#[derive(Debug, PartialEq, Eq)]
struct Before {
    /// The output of another attempt.
    another: bool,
    /// How many bytes of the same one.
    bytes: u64,
}

impl Shown {
    /// What is new in the output of an attempt, as output with so many bytes before it.
    fn next(&mut self, log: &Log) -> Option<(Log, Before)> {
        if log.fence < self.fence
            || (log.fence == self.fence && log.dropped + log.text.len() as u64 <= self.bytes)
        {
            return None;
        }
        let is_same = log.fence == self.fence;
        let before =
            Before { another: !is_same && self.fence != 0, bytes: if is_same { self.bytes } else { 0 } };
        let begin = usize::try_from(before.bytes.saturating_sub(log.dropped)).unwrap_or(usize::MAX);
        let text = log.text.get(begin..).unwrap_or_default().to_owned();
        let news = Log { fence: log.fence, dropped: before.bytes.max(log.dropped), text };
        *self = Self { fence: log.fence, bytes: log.dropped + log.text.len() as u64 };
        Some((news, before))
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
        let mut news =
            |log| shown.next(&log).map(|(news, before)| written(&news, before)).unwrap_or_default();
        assert_eq!(news(log(1, 0, "a\nb\n")), "a\nb\n");
        assert_eq!(news(log(1, 0, "a\nb\n")), "");
        assert_eq!(news(log(1, 0, "a\nb\nc\n")), "c\n");
        assert_eq!(news(log(1, 4, "c\nd\n")), "d\n");
        assert_eq!(news(log(1, 10, "g\n")), "… 2 bytes are not kept …\ng\n");
        assert_eq!(news(log(2, 0, "x\n")), "--- next attempt ---\nx\n");
        assert_eq!(news(log(1, 10, "g\n")), "");
        assert_eq!(spelled("a\u{1b}[31m\nb"), "a\\u{1b}[31m\nb");
    }
    /// As JSON each line says where its text stands, so that who puts them together sees what is missing.
    #[test]
    fn what_is_new_says_where_it_stands() {
        let log = |fence, dropped, text: &str| Log { fence, dropped, text: text.to_owned() };
        let mut shown = Shown::default();
        let mut news = |log| shown.next(&log).map(|(news, _)| news);
        assert_eq!(news(log(1, 0, "")), Some(log(1, 0, "")), "an attempt that has said nothing yet");
        assert_eq!(news(log(1, 0, "")), None);
        assert_eq!(news(log(1, 0, "a\nb\n")), Some(log(1, 0, "a\nb\n")));
        assert_eq!(news(log(1, 2, "b\nc\n")), Some(log(1, 4, "c\n")));
        assert_eq!(news(log(1, 10, "g\n")), Some(log(1, 10, "g\n")));
        assert_eq!(news(log(2, 0, "x\n")), Some(log(2, 0, "x\n")));
    }
}
