//! What queued jobs wait for, counted by the claim's own predicates.

use std::collections::BTreeMap;

use http::StatusCode;
use maud::{Markup, html};
use windlass_report::waiting::{Group, Rank, Waiting};
use windlass_report::words::{counted, number, short_id};

use super::bits::{bar, encoded, name};
use super::empty;
use super::frame::{Sheet, Watch, answer};
use crate::answer::Answered;
use crate::ask::Ask;

const TICK_SECONDS: u32 = 5;
/// How many reasons are shown: each key is one.
const REASONS_MAX: usize = 100;

/// `GET /waiting`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let waiting = ask.api.waiting().await?;
    let Waiting { queued, looked, partly, groups, .. } = &*waiting;
    let body = html! {
        h1 { "Waiting, by reason" }
        @if groups.is_empty() {
            (empty::none("No job waits", "A job that is queued is here with what holds it back:", "windlass explain"))
        } @else {
            p.quiet #looked {
                @if *partly { "The newest " (number(*looked)) " of " (number(*queued)) " queued jobs were looked at." }
                @else if *looked == 1 { "The one queued job was looked at." }
                @else { "All " (number(*looked)) " queued jobs were looked at." }
            }
            (table(groups, *looked))
        }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(&ask, StatusCode::OK, Sheet { title: "Waiting".to_owned(), place: "/jobs", watch, now, body }))
}

fn table(groups: &BTreeMap<(Rank, String), Group>, looked: u64) -> Markup {
    let mut groups: Vec<(&(Rank, String), &Group)> = groups.iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let rest = groups.get(REASONS_MAX..).unwrap_or_default();
    html! {
        table.rows {
            thead { tr { th.num { "jobs" } th.wide { span.hidden { "share" } } th { "wait" } th.w { "kind" } th { "one of them" } } }
            tbody {
                @for ((_, reason), group) in groups.iter().take(REASONS_MAX) {
                    tr data-row {
                        td.num { (number(group.count)) }
                        td.wide { (bar(group.count, looked)) }
                        td.text { a.open href=(group.link) { (reason) } }
                        td.text.w { a href={ "/jobs?state=queued&kind=" (encoded(group.kind.as_str())) } { (name(group.kind.as_str())) } }
                        td { a.id href={ "/jobs/" (group.job) } title=(group.job) { (short_id(group.job)) } }
                    }
                }
                @if !rest.is_empty() {
                    @let count = rest.iter().map(|(_, group)| group.count).sum::<u64>();
                    tr { td.num { (number(count)) } td.wide { (bar(count, looked)) } td.text.quiet { "for " (counted(rest.len() as u64, "more reason")) } td.w {} td {} }
                }
            }
        }
    }
}
