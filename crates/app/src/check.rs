//! `check`: what is right and what is wrong, before anything runs.

use async_trait::async_trait;
use serde::Serialize;

use crate::app::Exit;
use crate::host::Host;
use crate::output::{plain, print_json};
use crate::say;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// What to do about it; nothing when it is in order.
    pub to_do: Option<String>,
}

impl Finding {
    /// It is in order.
    pub fn fine(what: impl Into<String>) -> Self {
        Self { what: what.into(), to_do: None }
    }

    /// It is not, and this is what to do.
    pub fn wrong(what: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { what: what.into(), to_do: Some(to_do.into()) }
    }

    fn line(&self) -> String {
        match &self.to_do {
            None => format!("✓ {}", plain(&self.what)),
            Some(to_do) => format!("✗ {}\n    {}", plain(&self.what), plain(to_do)),
        }
    }
}

/// Looks, and changes nothing.
#[async_trait]
pub trait Check: Send + Sync {
    /// All that was looked at, in order.
    async fn look(&self, host: &Host) -> Vec<Finding>;
}

/// Says what was found: a line each, or JSON. The exit code is 1 when something is wrong, so that a script can tell. For
/// an app whose `check` takes arguments and so is a verb of its own.
pub fn say_findings(found: &[Finding], json: bool) -> Exit {
    let wrong = found.iter().filter(|finding| finding.to_do.is_some()).count();
    if json {
        // Findings are text, which is always JSON.
        let _ = print_json(found);
    } else {
        found.iter().for_each(|finding| say!("{}", finding.line()));
        match wrong {
            0 => say!("everything is in order"),
            1 => say!("1 thing is not in order"),
            more => say!("{more} things are not in order"),
        }
    }
    if wrong == 0 { Exit::DONE } else { Exit::FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_what_to_do() {
        assert_eq!(Finding::fine("the database").line(), "✓ the database");
        let wrong = Finding::wrong("no key\n", "set KEY");
        assert_eq!(wrong.line(), "✗ no key\\n\n    set KEY");
        assert_eq!(say_findings(&[wrong, Finding::fine("x")], true), Exit::FAILED);
        assert_eq!(say_findings(&[], false), Exit::DONE);
    }
}
