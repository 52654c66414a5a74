//! `windlass doctor`: looks for what is wrong, and says what to do.

use clap::Args;
use serde::Serialize;
use windlass_engine::core::store::Risk;
use windlass_engine::core::time::{Clock, Time};
use windlass_engine::world::RealWorld;
use windlass_report::doctor::{Finding, audit, epoch_pause, look};

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{plain, print_json, progress};
use crate::say;
use crate::wiring::open_place;

/// How many jobs of a state are looked at.
const LOOKS_MAX: usize = 2_000;

/// A clock that is this far from the store's is told.
const CLOCKS_MS: u64 = 2_000;

/// What is wrong, and what of the set-up may lose something or slows it down.
#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Finding>,
    risks: Vec<Risk>,
}

/// Which store.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 1 when something is wrong.\n\nExamples:\n  windlass doctor\n  windlass doctor --store postgres://db.example/jobs --json"
)]
pub struct DoctorArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Looks, and exits with 1 when something is wrong.
pub async fn run(args: DoctorArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let bar = progress("looking at everything", 1);
    let mut findings = audit(&*store, |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    })
    .await?;
    bar.finish_and_clear();
    findings.extend(look(&*store, LOOKS_MAX).await?);
    let now = store.now().await?;
    let mut risks = store.risks().await?;
    risks.extend(epoch_pause(&store.epoch().await?));
    risks.extend(look_at_clocks(now, RealWorld::new().wall()));
    let report = Report { findings, risks };
    if json {
        print_json(&report)?;
    } else {
        print(&report);
    }
    Ok(if report.findings.is_empty() { Code::Done } else { Code::Failed })
}

fn print(Report { findings, risks }: &Report) {
    if findings.is_empty() {
        say!("{}", if risks.is_empty() { "nothing is wrong" } else { "no job is in trouble" });
    }
    for Finding { wrong, next, command, .. } in findings {
        say!("- {}\n  {}", plain(wrong), plain(next));
        if let Some(command) = command {
            say!("    {}", plain(command));
        }
    }
    if !risks.is_empty() {
        say!("\nworth knowing:");
    }
    for Risk { what, next } in risks {
        say!("- {}\n  {}", plain(what), plain(next));
    }
}

fn look_at_clocks(store: Time, here: Time) -> Option<Risk> {
    let apart_ms = store.ms_since(here).max(here.ms_since(store));
    (apart_ms > CLOCKS_MS).then(|| {
        let what = format!("the clock of this machine and that of the store are {apart_ms} ms apart");
        Risk::new(what, "let both be set by NTP; leases go by the store's clock, logs and schedules of others by this one's")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_apart_are_told_whichever_is_ahead() {
        const NOW_MS: i64 = 1_800_000_000_000;
        for (ahead_ms, told) in
            [(0, None), (2_000, None), (-2_000, None), (2_001, Some("2001 ms")), (-90_000, Some("90000 ms"))]
        {
            let risk = look_at_clocks(Time::from_ms(NOW_MS + ahead_ms), Time::from_ms(NOW_MS));
            assert_eq!(risk.is_some(), told.is_some(), "{ahead_ms}");
            if let Some((Risk { what, next }, told)) = risk.zip(told) {
                assert!(what.contains(told) && next.contains("NTP"), "{what}, {next}");
            }
        }
    }
}
