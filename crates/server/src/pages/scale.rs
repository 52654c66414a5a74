//! A line of time on which long stretches of nothing are folded: an attempt of 20 ms between two waits of an hour is seen.

use maud::{Markup, html};
use windlass_engine::core::time::Time;

/// What is short stays visible: this many of a hundred.
const SHORTEST: f64 = 0.8;

/// A line of time, drawn from 0 to 100.
pub(super) struct Scale {
    from: Time,
    to: Time,
    /// Stretches of it, one behind the other.
    stretches: Vec<Stretch>,
    /// How long all of them are drawn.
    drawn_ms: f64,
}

struct Stretch {
    from: Time,
    to: Time,
    /// As how long it is drawn.
    drawn_ms: f64,
    folded: bool,
}

impl Scale {
    /// From the acceptance of a job to its end, with the stretches in which it ran, in order.
    pub(super) fn new(from: Time, to: Time, ran: impl IntoIterator<Item = (Time, Time)>) -> Self {
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut at = from;
        let (mut busy_ms, mut gaps) = (0, 0_u64);
        for (begun, ended) in ran {
            let (begun, ended) = (begun.max(at).min(to), ended.max(at).min(to));
            gaps += u64::from(begun > at);
            stretches.push(Stretch::plain(at, begun, true));
            stretches.push(Stretch::plain(begun, ended, false));
            busy_ms += ended.ms_since(begun);
            at = ended;
        }
        gaps += u64::from(to > at);
        stretches.push(Stretch::plain(at, to, true));
        let has_run = stretches.len() > 1;
        // All gaps together are as long as all that ran.
        let fold_ms = (busy_ms / gaps.max(1)).max(1);
        for gap in stretches.iter_mut().filter(|stretch| stretch.folded) {
            gap.folded = has_run && gap.to.ms_since(gap.from) > 2 * fold_ms;
            if gap.folded {
                gap.drawn_ms = fold_ms as f64;
            }
        }
        let drawn_ms = stretches.iter().map(|stretch| stretch.drawn_ms).sum::<f64>().max(1.0);
        Self { from, to, stretches, drawn_ms }
    }

    /// How long it is.
    pub(super) fn whole_ms(&self) -> u64 {
        self.to.ms_since(self.from)
    }

    /// Until when it goes.
    pub(super) fn to(&self) -> Time {
        self.to
    }

    /// Since when it goes.
    pub(super) fn from(&self) -> Time {
        self.from
    }

    /// Whether something is folded.
    pub(super) fn is_folded(&self) -> bool {
        self.stretches.iter().any(|stretch| stretch.folded)
    }

    /// Where a moment is drawn.
    fn at(&self, time: Time) -> f64 {
        let mut before_ms = 0.0;
        for stretch in &self.stretches {
            if time <= stretch.to {
                let whole_ms = stretch.to.ms_since(stretch.from).max(1) as f64;
                let part = time.ms_since(stretch.from) as f64 / whole_ms;
                return (before_ms + part * stretch.drawn_ms) / self.drawn_ms * 100.0;
            }
            before_ms += stretch.drawn_ms;
        }
        100.0
    }

    /// A bar from one moment to another.
    pub(super) fn bar(&self, from: Time, to: Time, class: &str) -> Markup {
        let width = (self.at(to) - self.at(from)).max(SHORTEST);
        let left = self.at(from).min(100.0 - width);
        let folds = self.stretches.iter().filter(|stretch| stretch.folded);
        let folds = folds.map(|fold| (self.at(fold.from) + self.at(fold.to)) / 2.0);
        html! {
            svg.span viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                rect.track y="4.5" width="100" height="1" {}
                rect class=(class) x=(format!("{left:.2}")) y="1" width=(format!("{width:.2}")) height="8" {}
                @for fold in folds { path.fold d=(format!("M{:.2} 8L{:.2} 2M{:.2} 8L{:.2} 2", fold - 0.8, fold, fold, fold + 0.8)) {} }
            }
        }
    }
}

impl Stretch {
    fn plain(from: Time, to: Time, gap: bool) -> Self {
        Self { from, to, drawn_ms: to.ms_since(from) as f64, folded: gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_ms(ms)
    }

    #[test]
    fn what_ran_takes_half_of_the_line_at_least() {
        // Two attempts of 20 ms, an hour apart, and an hour until the end.
        let hour = 3_600_000;
        let ran = [(at(5), at(25)), (at(hour), at(hour + 20))];
        let scale = Scale::new(at(0), at(2 * hour), ran);
        assert!(scale.is_folded());
        let wide = |(from, to)| scale.at(to) - scale.at(from);
        let busy: f64 = ran.into_iter().map(wide).sum();
        assert!(busy >= 50.0, "{busy}");
        assert_eq!((scale.at(at(0)), scale.at(at(2 * hour))), (0.0, 100.0));
        let moments = [0, 5, 25, 1_000, hour, hour + 20, 2 * hour].map(|ms| scale.at(at(ms)));
        assert!(moments.is_sorted_by(|a, b| a < b), "{moments:?}");
    }

    #[test]
    fn without_long_waits_a_line_is_as_it_was() {
        let scale = Scale::new(at(0), at(100), [(at(20), at(60)), (at(70), at(100))]);
        assert!(!scale.is_folded());
        assert_eq!([0, 20, 50, 100].map(|ms| scale.at(at(ms))), [0.0, 20.0, 50.0, 100.0]);
        // Nothing ran yet: there is nothing that a fold would let be seen.
        let waiting = Scale::new(at(0), at(1_000_000), []);
        assert!(!waiting.is_folded() && (waiting.at(at(500_000)) - 50.0).abs() < 1e-9);
        // A job that is over at once.
        assert_eq!(Scale::new(at(7), at(7), [(at(7), at(7))]).at(at(7)), 0.0);
    }
}
