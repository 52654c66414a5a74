//! Many times in three numbers.

use std::fmt;

/// Milliseconds, shown as their median, 99th percentile and maximum.
pub struct Spread(pub Vec<f64>);

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.0.clone();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        write!(f, "p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", at(0.5), at(0.99), at(1.0))
    }
}
