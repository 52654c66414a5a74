//! Metrics as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;
use windlass_engine::core::event::What;
use windlass_engine::core::id::QueueName;
use windlass_engine::core::policy::budget::Used;

use crate::answer::Refusal;
use crate::api::Api;

/// How many requests were answered how, by method, route and status. Routes
/// are those of the table, so their number is bounded.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>);

impl Metrics {
    /// Counts an answer.
    pub(crate) fn count(&self, method: &'static str, route: &'static str, status: StatusCode) {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method, route, status.as_u16())).or_default() += 1;
    }
}

/// All of them as text.
pub(crate) async fn write(api: &Api) -> Result<String, Refusal> {
    let store = &api.store;
    let (now, queues, budgets) = tokio::try_join!(store.now(), store.queues(), store.budgets())?;
    let mut text = Text(String::new());
    text.family("windlass_queue_depth", "gauge", "Jobs that are queued.");
    for queue in &queues {
        text.line("windlass_queue_depth", &[("queue", queue.name.as_str())], queue.queued as f64);
    }
    text.family("windlass_queue_running", "gauge", "Jobs that are running.");
    for queue in &queues {
        text.line("windlass_queue_running", &[("queue", queue.name.as_str())], queue.running as f64);
    }
    text.family(
        "windlass_queue_oldest_age_seconds",
        "gauge",
        "How long the longest waiting due job has waited.",
    );
    for queue in &queues {
        let age_ms = queue.oldest_due.map_or(0, |due| now.ms_since(due));
        text.line(
            "windlass_queue_oldest_age_seconds",
            &[("queue", queue.name.as_str())],
            age_ms as f64 / 1_000.0,
        );
    }
    text.family("windlass_budget_used", "gauge", "What of a budget is used.");
    for status in &budgets {
        let name = status.budget.name.as_str();
        let Used { second, minute, day } = status.used;
        for (window, used) in
            [("slots", status.slots_used), ("second", second), ("minute", minute), ("day", day)]
        {
            text.line("windlass_budget_used", &[("budget", name), ("window", window)], f64::from(used));
        }
    }
    let totals = api.feed.rings(|rings| rings.totals().clone());
    text.family(
        "windlass_events_total",
        "counter",
        "Jobs that something happened to, since this server started.",
    );
    for ((what, queue), count) in &totals {
        let (what, queue): (&What, &QueueName) = (what, queue);
        text.line(
            "windlass_events_total",
            &[("what", what.as_str()), ("queue", queue.as_str())],
            *count as f64,
        );
    }
    requests(api, &mut text);
    process(api, &mut text);
    Ok(text.0)
}

fn requests(api: &Api, text: &mut Text) {
    text.family("windlass_http_requests_total", "counter", "Requests by route and status.");
    let requests = api.metrics.0.lock().unwrap_or_else(PoisonError::into_inner);
    for ((method, route, status), count) in requests.iter() {
        let labels = [("method", *method), ("route", *route), ("status", &status.to_string())];
        text.line("windlass_http_requests_total", &labels, *count as f64);
    }
}

fn process(api: &Api, text: &mut Text) {
    text.family("windlass_http_connections", "gauge", "Connections that are open.");
    text.line("windlass_http_connections", &[], api.seats.taken() as f64);
    if let Some(bytes) = resident_bytes() {
        text.family("process_resident_memory_bytes", "gauge", "Memory of the process.");
        text.line("process_resident_memory_bytes", &[], bytes as f64);
    }
}

/// The memory of this process, where the kernel tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1_024)
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, sort: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {sort}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 65: a name cannot break out of its label.
    #[test]
    fn fault_65_labels_are_escaped() {
        let mut text = Text(String::new());
        text.line("m", &[("queue", "a\"} 1\nm{x=\"\\")], 2.0);
        text.line("n", &[], 0.5);
        assert_eq!(text.0, "m{queue=\"a\\\"} 1\\nm{x=\\\"\\\\\"} 2\nn 0.5\n");
    }
}
