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

/// A piece of a name that has no more characters than this is not broken in a wide window.
const PIECE_MAX: usize = 20;
/// And one of no more than this in none.
const PIECE_SHORT: usize = 14;

/// A name (of a kind, a queue, a budget, a schedule, a worker), which a narrow column breaks behind a dot or a slash and nowhere
/// else, and a short one only where the window is narrow. One that has a long piece without them gives way at its other joints,
/// and in the middle of a word where it has none.
pub(super) fn name(text: &str) -> Markup {
    let pieces = html! {
        @for (at, piece) in text.split_inclusive(['.', '/']).flat_map(joints).enumerate() {
            @if at > 0 { wbr; }
            @if fits(piece, PIECE_SHORT) { span.piece { (piece) } }
            @else if fits(piece, PIECE_MAX) { span.piece.long { (piece) } }
            @else { (piece) }
        }
    };
    html! { @if fits(text, PIECE_MAX) { span.name { (pieces) } } @else { (pieces) } }
}

/// A piece as it is, or at the joints that it has if it is long.
fn joints(piece: &str) -> impl Iterator<Item = &str> {
    let whole = fits(piece, PIECE_MAX);
    piece.split_inclusive(move |letter: char| !whole && "-_:@".contains(letter))
}

fn fits(piece: &str, letters_max: usize) -> bool {
    piece.chars().nth(letters_max).is_none()
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

    #[test]
    fn names_are_broken_at_their_dots() {
        let check = |text: &str, expected: &[String]| {
            let shown = name(text).into_string();
            let inside =
                shown.strip_prefix(r#"<span class="name">"#).and_then(|rest| rest.strip_suffix("</span>"));
            assert_eq!(inside.is_some(), fits(text, PIECE_MAX), "{text}");
            let pieces: Vec<&str> = inside.unwrap_or(&shown).split("<wbr>").collect();
            assert_eq!(pieces, expected, "{text}");
        };
        let short = |piece: &str| format!(r#"<span class="piece">{piece}</span>"#);
        check("sample.broken", &[short("sample."), short("broken")]);
        check("sample-slow", &[short("sample-slow")]);
        check("shop-sync/article", &[short("shop-sync/"), short("article")]);
        check("a.reports-of-each-night_v2", &["a.", "reports-", "of-", "each-", "night_", "v2"].map(short));
        check("reports-of-a-night", &[r#"<span class="piece long">reports-of-a-night</span>"#.to_owned()]);
        check("<b>", &[short("&lt;b&gt;")]);
        let endless = "k".repeat(PIECE_MAX + 1);
        check(&endless, std::slice::from_ref(&endless));
    }
}
