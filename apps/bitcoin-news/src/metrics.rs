//! How things stand, for a program that watches: counts in the text form of Prometheus.

use std::fmt::Write;

use crate::status::{BudgetUse, Status, UpdaterStatus};

/// The counts.
pub fn text(status: &Status) -> String {
    let mut out = String::new();
    let Status { pending, current, try_later, done, failed, skipped, dropped, .. } = status;
    family(&mut out, "articles", "Articles by state.");
    for (state, count) in [
        ("pending", pending),
        ("current", current),
        ("later", try_later),
        ("done", done),
        ("failed", failed),
        ("skipped", skipped),
        ("dropped", dropped),
    ] {
        line(&mut out, "articles", "state", state, *count);
    }
    family(&mut out, "spent_today", "What was spent of a budget in the last 24 hours.");
    for (name, BudgetUse { used, .. }) in &status.budgets {
        if let Some(used) = used {
            line(&mut out, "spent_today", "budget", name, u64::from(*used));
        }
    }
    family(&mut out, "updater_last_run_seconds", "When the updater last ran, in seconds since 1970.");
    for (provider, UpdaterStatus { last, .. }) in &status.updater {
        if let Some(last) = last {
            let at_s = u64::try_from(last.at_ms / 1_000).unwrap_or_default();
            line(&mut out, "updater_last_run_seconds", "provider", provider, at_s);
        }
    }
    family(&mut out, "updater_trouble", "1 when its last run ended early.");
    for (provider, UpdaterStatus { last, .. }) in &status.updater {
        let trouble = last.as_ref().is_some_and(|last| last.trouble.is_some());
        line(&mut out, "updater_trouble", "provider", provider, u64::from(trouble));
    }
    out
}

/// All of it is a gauge: each can go down.
fn family(out: &mut String, name: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP bitcoin_news_{name} {help}\n# TYPE bitcoin_news_{name} gauge");
}

/// The values of labels are words of our own, and names of providers.
fn line(out: &mut String, name: &str, label: &str, value: &str, count: u64) {
    let _ = writeln!(out, "bitcoin_news_{name}{{{label}=\"{value}\"}} {count}");
}
