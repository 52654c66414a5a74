//! What the list of jobs is filtered by, and the addresses of other views.

use windlass_engine::core::query::{Cursor, JobFilter};
use windlass_engine::core::state::StateName;
use windlass_report::search::Wanted;

use super::bits::encoded;

/// A view of the list: what is wanted, and the stretch of time as it was said.
#[derive(Clone, Default)]
pub(super) struct View {
    pub wanted: Wanted,
    pub since: Option<String>,
    pub until: Option<String>,
}

impl View {
    /// The view of what was asked for.
    pub(super) fn new(wanted: Wanted, given: &[(String, String)]) -> Self {
        let said =
            |wanted: &str| given.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        Self { wanted, since: said("since"), until: said("until") }
    }

    /// What a list is asked with for this view.
    pub(super) fn query(&self, after: Option<Cursor>) -> String {
        let Self { wanted: Wanted { filter, error }, since, until } = self;
        let JobFilter { states, queue, kind, key, since: _, until: _, text } = filter;
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
            ("since", since.clone()),
            ("until", until.clone()),
            ("text", text.clone()),
            ("error", error.clone()),
            ("cursor", after.map(|Cursor(at)| at.to_string())),
        ];
        for (name, value) in said {
            parts.extend(value.map(|value| format!("{name}={}", encoded(&value))));
        }
        parts.join("&")
    }

    /// The address of this view.
    pub(super) fn address(&self, after: Option<Cursor>) -> String {
        let query = self.query(after);
        if query.is_empty() { "/jobs".to_owned() } else { format!("/jobs?{query}") }
    }

    /// The address with one state more, or less.
    pub(super) fn toggled(&self, state: StateName) -> String {
        let mut other = self.clone();
        let states = &mut other.wanted.filter.states;
        if states.contains(&state) {
            states.retain(|wanted| *wanted != state);
        } else {
            states.push(state);
            states.sort_unstable();
        }
        other.address(None)
    }

    /// Whether anything is filtered at all.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted == Wanted::default()
    }

    /// The view without its states.
    pub(super) fn of_any_state(&self) -> Self {
        let mut other = self.clone();
        other.wanted.filter.states.clear();
        other
    }

    /// The filter as the calls over many jobs take it, but for its states.
    pub(super) fn as_json(&self) -> String {
        let Wanted { filter, error } = &self.wanted;
        let JobFilter { states: _, queue, kind, key, since, until, text } = filter;
        let said = [
            ("queue", queue.as_ref().map(ToString::to_string)),
            ("kind", kind.as_ref().map(ToString::to_string)),
            ("key", key.as_ref().map(ToString::to_string)),
            ("since", since.map(|at| at.to_string())),
            ("until", until.map(|at| at.to_string())),
            ("text", text.clone()),
            ("error", error.clone()),
        ];
        let said = said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
        serde_json::Value::Object(said.collect()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::core::id::QueueName;

    #[test]
    fn the_address_holds_the_view() {
        let mut view = View::default();
        assert_eq!(view.address(None), "/jobs");
        view.wanted.filter.queue = Some(QueueName::new("a&b").unwrap());
        view.wanted.filter.text = Some("x y".to_owned());
        assert_eq!(view.address(Some(Cursor(7))), "/jobs?queue=a%26b&text=x%20y&cursor=7");
        view.wanted.filter.text = None;
        assert_eq!(view.toggled(StateName::Failed), "/jobs?state=failed&queue=a%26b");
        view.wanted.filter.states = vec![StateName::Failed, StateName::Queued];
        assert_eq!(view.toggled(StateName::Failed), "/jobs?state=queued&queue=a%26b");
        view.since = Some("1h".to_owned());
        view.wanted.error = Some("row #".to_owned());
        assert_eq!(view.of_any_state().address(None), "/jobs?queue=a%26b&since=1h&error=row%20%23");
        assert_eq!(view.as_json(), r##"{"queue":"a&b","error":"row #"}"##);
    }
}
