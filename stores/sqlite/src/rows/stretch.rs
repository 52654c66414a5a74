//! Numbers that follow each other: rows that lie side by side are read and
//! written as one stretch, which spares a search for each.

/// So many numbers must a stretch have, on average, to be worth a statement of its own.
const WORTH: usize = 8;

/// The stretches of numbers in order; nothing when they are too many for so few numbers.
pub fn stretches(sorted: &[i64]) -> Option<Vec<(i64, i64)>> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    for number in sorted.iter().copied() {
        if let Some((_, last)) = found.last_mut()
            && last.checked_add(1) == Some(number)
        {
            *last = number;
        } else if (found.len() + 1) * WORTH > sorted.len().max(WORTH) {
            return None;
        } else {
            found.push((number, number));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_found_when_they_are_long() {
        assert_eq!(stretches(&[]), Some(vec![]));
        assert_eq!(stretches(&[7]), Some(vec![(7, 7)]));
        assert_eq!(stretches(&[7, 9]), None);
        let two: Vec<i64> = (1..10).chain(20..30).collect();
        assert_eq!(stretches(&two), Some(vec![(1, 9), (20, 29)]));
        assert_eq!(stretches(&[i64::MAX - 1, i64::MAX]), Some(vec![(i64::MAX - 1, i64::MAX)]));
        let odd: Vec<i64> = (0..100).map(|number| number * 2).collect();
        assert_eq!(stretches(&odd), None);
    }
}
