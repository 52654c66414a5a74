//! Small things that every page shows: states, times, amounts, bars.

use maud::{Markup, html};
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;

pub(crate) use windlass_report::address::{budget_at, encoded};

/// A state by shape, word and colour.
pub(super) fn state(state: StateName) -> Markup {
    html! { span class={ "state " (state) } { (shape(state.as_str())) (state) } }
}

/// What happened, with the shape of the state that it led to.
pub(super) fn outcome(word: &str) -> Markup {
    let class = match word {
        "completed" | "step" => "completed",
        "failed" | "retrying" | "crashed" => "failed",
        "canceled" | "cancel_requested" => "canceled",
        "running" | "claimed" => "running",
        _ => "queued",
    };
    html! { span class={ "state " (class) } { (shape(class)) (word.replace('_', " ")) } }
}

/// The shape alone. Drawn, so that it looks the same in every font.
pub(super) fn shape(state: &str) -> Markup {
    html! {
        svg.shape viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" {
            @match state {
                "queued" => { circle cx="5" cy="5" r="3.6" fill="none" stroke="currentColor" stroke-width="1.4" {} }
                "running" => { path d="M2 1l7 4-7 4z" fill="currentColor" {} }
                "completed" => { path d="M1 5.4l2.8 2.8L9 2" fill="none" stroke="currentColor" stroke-width="1.8" {} }
                "failed" => { path d="M1.5 1.5l7 7m0-7l-7 7" fill="none" stroke="currentColor" stroke-width="1.8" {} }
                _ => { path d="M1 5h8" fill="none" stroke="currentColor" stroke-width="1.8" {} }
            }
        }
    }
}

/// A moment: how far from now, with the exact one on hover. The browser lets it tick.
pub(super) fn moment(at: Time, now: Time) -> Markup {
    html! { time datetime=(at) title=(at) data-at=(at.ms()) { (relative(at, now)) } }
}

/// A moment, or a dash.
pub(super) fn moment_or_dash(at: Option<Time>, now: Time) -> Markup {
    at.map_or_else(dash, |at| moment(at, now))
}

/// How long something has been going on.
pub(super) fn since(at: Time, now: Time) -> Markup {
    html! { time datetime=(at) title={ "since " (at) } data-since=(at.ms()) { (length(now.ms_since(at))) } }
}

pub(super) fn dash() -> Markup {
    html! { span.none { "–" } }
}

/// `12 s ago`, `in 3 m`. `times.js` writes the same words.
pub(super) fn relative(at: Time, now: Time) -> String {
    if at > now {
        let ms = at.ms_since(now);
        return if ms < 1_000 { "now".to_owned() } else { format!("in {}", coarse(ms)) };
    }
    let ms = now.ms_since(at);
    if ms < 1_000 { "now".to_owned() } else { format!("{} ago", coarse(ms)) }
}

fn coarse(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A length of time in its two largest units. `times.js` writes the same words.
pub(super) fn length(ms: u64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} m {} s", ms / 60_000, ms / 1_000 % 60),
        3_600_000..86_400_000 => format!("{} h {} m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{} d {} h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

/// How much of something is used.
pub(super) fn bar(part: u64, whole: u64) -> Markup {
    let share = if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) };
    let class = if part >= whole && whole > 0 { "bar full" } else { "bar" };
    html! {
        svg class=(class) viewBox="0 0 100 6" width="100" height="6" preserveAspectRatio="none" aria-hidden="true" {
            rect.track width="100" height="6" {}
            rect.part width=(format!("{:.1}", share * 100.0)) height="6" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words() {
        let now = Time::from_ms(10_000_000_000);
        for (ms, expected) in [
            (0, "now"),
            (-999, "now"),
            (-12_345, "12 s ago"),
            (-180_000, "3 m ago"),
            (-7_300_000, "2 h ago"),
            (-200_000_000, "2 d ago"),
            (90_000, "in 1 m"),
        ] {
            assert_eq!(relative(now.plus_ms(ms), now), expected, "{ms}");
        }
        for (ms, expected) in [
            (7, "7 ms"),
            (2_480, "2.4 s"),
            (61_000, "1 m 1 s"),
            (3_840_000, "1 h 4 m"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(length(ms), expected);
        }
    }
}
