//! How it went over hours, with one queue or with all: two charts, and the choice how far back they go.

use maud::{Markup, html};

use super::bits::{encoded, length};
use super::chart::{Chart, Line, Unit, chart, lifted};
use crate::answer::Refusal;
use crate::ask::Ask;
use crate::feed::{HistoryView, Span};

/// The choice of the seconds of the last minutes instead of a span of the history.
pub(super) const RECENT: &str = "15m";

/// The span that an address names; nothing when it names the last minutes, or none.
pub(super) fn asked(ask: &Ask) -> Result<Option<Span>, Refusal> {
    let word = ask.query(&["span"], &[])?.pop().map(|(_, word)| word);
    match word.as_deref() {
        None | Some(RECENT) => Ok(None),
        Some(word) => Span::named(word).map(Some).ok_or_else(|| {
            let spans: Vec<&str> = Span::ALL.into_iter().map(Span::as_str).collect();
            Refusal::field("span", format!("is one of {RECENT}, {}", spans.join(", ")))
        }),
    }
}

/// How far back the charts of a page go: which spans there are, and which this is.
pub(super) fn choice(path: &str, spans: &[&str], now: &str) -> Markup {
    html! {
        nav.chips.spans aria-label="How far back" {
            @for span in spans {
                a.chip href={ (path) "?span=" (encoded(span)) } aria-current=[(*span == now).then_some("true")] { (span) }
            }
        }
    }
}

/// The two charts of a span.
pub(super) fn charts(from: &HistoryView, span: Span) -> Markup {
    html! { div.two { (chart(&jobs(from, span))) (chart(&latency(from, span))) } }
}

fn span_ms(span: Span) -> u64 {
    span.minutes().unsigned_abs() * 60_000
}

fn jobs(from: &HistoryView, span: Span) -> Chart<'static> {
    let minutes = from.step_seconds as f64 / 60.0;
    let rates = |counts: &[u64]| -> Vec<f64> { counts.iter().map(|count| *count as f64 / minutes).collect() };
    let known = |counts: &[u64]| rates(counts).into_iter().map(Some).collect();
    let troubled: Vec<u64> =
        from.failed.iter().zip(&from.retrying).map(|(failed, retrying)| failed + retrying).collect();
    let all = |counts: &[u64]| Some(windlass_report::words::number(counts.iter().sum()));
    let line = |name, class, points, filled, said| Line { name, class, points, filled, said };
    Chart {
        name: "Jobs per minute",
        unit: Unit::PerMinute,
        span_ms: span_ms(span),
        lines: vec![
            line("completed", "main", known(&from.completed), true, all(&from.completed)),
            line("enqueued", "second", known(&from.enqueued), false, all(&from.enqueued)),
            line("failed attempts", "bad", lifted(&rates(&troubled)), false, all(&troubled)),
        ],
    }
}

fn latency(from: &HistoryView, span: Span) -> Chart<'static> {
    let line = |name, class, points: &[Option<u64>]| Line {
        name,
        class,
        points: points.iter().map(|point| point.map(|ms| ms as f64)).collect(),
        filled: false,
        said: points.iter().rev().flatten().next().map(|ms| length(*ms)),
    };
    Chart {
        name: "Latency, p95",
        unit: Unit::Ms,
        span_ms: span_ms(span),
        lines: vec![line("run", "main", &from.run_ms), line("wait", "second", &from.wait_ms)],
    }
}
