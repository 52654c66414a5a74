//! A part of a list of things with names: there may be ten thousand of them.

use maud::{Markup, html};
use windlass_report::words::number;

use super::bits::encoded;
use crate::answer::Refusal;
use crate::ask::Ask;

/// How many things a page shows.
const PAGE_MAX: usize = 200;

/// What is shown of a list.
pub(super) struct Part<'a, T> {
    pub shown: &'a [T],
    begin: usize,
    all: usize,
    name: fn(&T) -> &str,
}

impl<'a, T> Part<'a, T> {
    /// What the address asks for: those after a name (`after`), those from a name on (`name`), or the first. They are
    /// in the order of their names.
    pub(super) fn asked(ask: &Ask, all: &'a [T], name: fn(&T) -> &str) -> Result<Self, Refusal> {
        let mut asked = ask.query(&["after", "name"], &[])?;
        let begin = match asked.pop() {
            Some((_, from)) if !asked.is_empty() => {
                return Err(Refusal::field(
                    "name",
                    format!("is not together with `after`; {from:?} is one of them"),
                ));
            }
            Some((word, from)) if word == "name" => all.partition_point(|one| name(one) < from.as_str()),
            Some((_, after)) => all.partition_point(|one| name(one) <= after.as_str()),
            None => 0,
        };
        let shown = &all[begin..all.len().min(begin + PAGE_MAX)];
        Ok(Self { shown, begin, all: all.len(), name })
    }

    /// Which part it is, with the ways to others; nothing where all of them are shown.
    pub(super) fn pages(&self, path: &str, what: &str) -> Markup {
        let Self { shown, begin, all, name } = self;
        let end = begin + shown.len();
        html! {
            @if shown.len() < *all {
                p.pages {
                    span.quiet {
                        @if shown.is_empty() { "none of " } @else { (number(*begin as u64 + 1)) " to " (number(end as u64)) " of " }
                        (number(*all as u64)) " " (what) ", by name"
                    }
                    @if *begin > 0 { a href=(path) { "← first" } }
                    @if end < *all && let Some(last) = shown.last() {
                        a rel="next" href={ (path) "?after=" (encoded(name(last))) } { "next →" }
                    }
                }
            }
        }
    }
}
