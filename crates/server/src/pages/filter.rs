//! What the list of jobs is filtered by, and the addresses of other views.

use windlass_engine::core::query::{Cursor, JobFilter};
use windlass_engine::core::state::StateName;

use super::bits::encoded;

/// The address of a list with this filter.
pub(super) fn address(filter: &JobFilter, after: Option<Cursor>) -> String {
    let JobFilter { states, queue, kind, key, since, until, text } = filter;
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let mut parts = Vec::new();
    if !states.is_empty() {
        // Commas may stand as they are.
        parts.push(format!("state={}", states.join(",")));
    }
    let said = [
        ("queue", queue.as_ref().map(ToString::to_string)),
        ("kind", kind.as_ref().map(ToString::to_string)),
        ("key", key.as_ref().map(ToString::to_string)),
        ("since", since.map(|at| at.to_string())),
        ("until", until.map(|at| at.to_string())),
        ("text", text.clone()),
        ("cursor", after.map(|Cursor(at)| at.to_string())),
    ];
    for (name, value) in said {
        parts.extend(value.map(|value| format!("{name}={}", encoded(&value))));
    }
    if parts.is_empty() { "/jobs".to_owned() } else { format!("/jobs?{}", parts.join("&")) }
}

/// The address with one state more, or less.
pub(super) fn toggled(filter: &JobFilter, state: StateName) -> String {
    let mut other = filter.clone();
    if other.states.contains(&state) {
        other.states.retain(|wanted| *wanted != state);
    } else {
        other.states.push(state);
        other.states.sort_unstable();
    }
    address(&other, None)
}

/// Whether anything is filtered at all.
pub(super) fn is_empty(filter: &JobFilter) -> bool {
    *filter == JobFilter::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::core::id::QueueName;

    #[test]
    fn the_address_holds_the_view() {
        let mut filter = JobFilter::default();
        assert_eq!(address(&filter, None), "/jobs");
        filter.queue = Some(QueueName::new("a&b").unwrap());
        filter.text = Some("x y".to_owned());
        assert_eq!(address(&filter, Some(Cursor(7))), "/jobs?queue=a%26b&text=x%20y&cursor=7");
        filter.text = None;
        assert_eq!(toggled(&filter, StateName::Failed), "/jobs?state=failed&queue=a%26b");
        filter.states = vec![StateName::Failed, StateName::Queued];
        assert_eq!(toggled(&filter, StateName::Failed), "/jobs?state=queued&queue=a%26b");
    }
}
