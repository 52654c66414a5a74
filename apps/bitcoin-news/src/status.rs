//! How things stand.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_engine::ShelfError;

use crate::archive::{Archive, LastRun};
use crate::jobs::{KV_BUDGET, MODEL_BUDGET, NEWS_BUDGET};
use crate::scan::Scan;
use crate::time::iso;

/// How things stand.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Articles that wait for their first attempt.
    pub pending: u64,
    /// Articles that are being worked on.
    pub current: u64,
    /// Articles that are tried again later.
    pub try_later: u64,
    /// Articles that are done.
    pub done: u64,
    /// Articles that ended with empty values.
    pub failed: u64,
    /// Articles that nobody worked on to their end.
    pub skipped: u64,
    /// Articles that an operator took away lately.
    pub dropped: u64,
    /// The ids of those that are being worked on.
    pub current_ids: Vec<String>,
    /// Why articles wait or ended without values, and how many for each reason.
    pub reasons: BTreeMap<String, BTreeMap<String, u64>>,
    /// The updater, by provider.
    pub updater: BTreeMap<String, UpdaterStatus>,
    /// What was spent in the last 24 hours, and of how much.
    pub budgets: BTreeMap<String, BudgetUse>,
}

/// How the updater stands.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdaterStatus {
    /// How its last run went.
    pub last: Option<LastRun>,
    /// Whether a scan was cut off and goes on next time.
    pub has_gap: bool,
    /// How many articles were skipped since the first run.
    pub skipped: u64,
}

/// How much of a budget is used.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetUse {
    /// In the last 24 hours; nothing where there is no bound, since then nobody counts.
    pub used: Option<u32>,
    /// What may be used.
    pub per_day: Option<u32>,
    /// Nothing before this moment, when nothing may be used now.
    pub free_at: Option<String>,
}

impl Status {
    /// Looks.
    pub async fn look(archive: &Archive) -> Result<Self, ShelfError> {
        let counts = archive.articles.count("").await?;
        let mut reasons: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for label in ["later", "failed", "skipped"] {
            for entry in archive.labeled(label).await? {
                let Some(reason) = entry.value.reason() else { continue };
                *reasons.entry(label.to_owned()).or_default().entry(reason.to_string()).or_default() += 1;
            }
        }
        let current_ids =
            archive.labeled("current").await?.into_iter().map(|entry| entry.value.news.id).collect();
        let mut updater = BTreeMap::new();
        for entry in archive.progress.scan().all().await? {
            let Scan { open, .. } = &entry.value.scan;
            let (has_gap, skipped) = (open.is_some(), entry.value.skipped);
            updater.insert(entry.key.to_string(), UpdaterStatus { last: entry.value.last, has_gap, skipped });
        }
        Ok(Self {
            pending: counts.of("pending"),
            current: counts.of("current"),
            try_later: counts.of("later"),
            done: counts.of("done"),
            failed: counts.of("failed"),
            skipped: counts.of("skipped"),
            dropped: counts.of("dropped"),
            current_ids,
            reasons,
            updater,
            budgets: budgets(archive).await?,
        })
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "pending {}   current {}   try-later {}   done {}   failed {}   skipped {}",
            self.pending, self.current, self.try_later, self.done, self.failed, self.skipped
        )];
        lines.extend(self.current_ids.iter().map(|id| format!("current: {id}")));
        for (label, reasons) in &self.reasons {
            lines.extend(reasons.iter().map(|(reason, count)| format!("{label}: {count} × {reason}")));
        }
        for (provider, UpdaterStatus { last, has_gap, skipped }) in &self.updater {
            if let Some(LastRun { at_ms, report, trouble }) = last {
                let how =
                    trouble.as_ref().map_or(String::new(), |trouble| format!("; it ended early: {trouble}"));
                let (at, pages, new) = (iso(*at_ms), report.pages, report.new);
                lines.push(format!("updater ({provider}): last run {at}, {pages} pages, {new} new{how}"));
            }
            if *has_gap {
                lines.push(format!("updater ({provider}): a scan was cut off; the next run goes on with it"));
            }
            if *skipped > 0 {
                lines.push(format!(
                    "updater ({provider}): {skipped} skipped so far, since more waited than may"
                ));
            }
        }
        for (name, BudgetUse { used, per_day, free_at }) in &self.budgets {
            let spent = match (used, per_day) {
                (Some(used), Some(bound)) => format!("{used} of {bound} in 24 hours"),
                _ => "without bound, and not counted".to_owned(),
            };
            let rests = free_at.as_ref().map_or(String::new(), |at| format!("; nothing before {at}"));
            lines.push(format!("{name}: {spent}{rests}"));
        }
        if self.try_later > 0 || self.failed > 0 {
            lines.push(
                "`retry ID…` or `retry --all` has articles tried again; `drop ID…` takes them away"
                    .to_owned(),
            );
        }
        lines.join("\n")
    }
}

async fn budgets(archive: &Archive) -> Result<BTreeMap<String, BudgetUse>, ShelfError> {
    let mut budgets = BTreeMap::new();
    for status in archive.client.store().budgets().await? {
        let what = match status.budget.name.as_str() {
            NEWS_BUDGET => "news pages",
            MODEL_BUDGET => "model calls",
            KV_BUDGET => "KV writes",
            _ => continue,
        };
        let per_day = status.budget.policy.per_day;
        let free_at = status.free_at.map(|at| iso(at.ms()));
        let used = per_day.map(|_| status.used.day);
        budgets.insert(what.to_owned(), BudgetUse { used, per_day, free_at });
    }
    Ok(budgets)
}
