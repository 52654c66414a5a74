//! Budgets: what they allow, what is used, when more is there.

use http::StatusCode;
use maud::{Markup, html};
use windlass_engine::core::time::Time;
use windlass_report::view::BudgetView;
use windlass_report::words::number;

use super::bits::{self, bar, dash, encoded, moment};
use super::empty;
use super::form::{self, Field};
use super::frame::{Sheet, Watch, answer};
use super::part::Part;
use crate::answer::Answered;
use crate::ask::Ask;
use crate::settings::Role;

/// What was spent in the last second is soon free again.
const TICK_SECONDS: u32 = 2;

/// `GET /budgets`
pub(super) async fn page(ask: Ask) -> Answered {
    let since = ask.api.store.events_end().await?;
    let now = ask.api.now().await?;
    let budgets: Vec<BudgetView> =
        ask.api.store.budgets().await?.into_iter().map(|budget| BudgetView::new(budget, now)).collect();
    let part = Part::asked(&ask, &budgets, |budget| budget.name.as_str())?;
    let admin = ask.caller.role == Role::Admin;
    let body = html! {
        h1 { "Budgets" }
        @if budgets.is_empty() {
            (empty::none("No budget yet", "A budget is an allowance that all workers share: slots, per second, per minute, per 24 hours. A job that names one starts only if it allows it.", "windlass budgets set etsy --per-second 10 --per-day 10000"))
        } @else {
            (listed(&part.shown.iter().collect::<Vec<_>>(), now, admin))
            (part.pages("/budgets", "budgets"))
        }
        @if admin { (form::new("Set a budget", "/v1/budgets", form::fields(&fields(None)))) }
    };
    let watch = Watch::All { since, ticks: TICK_SECONDS };
    Ok(answer(
        &ask,
        StatusCode::OK,
        Sheet { title: "Budgets".to_owned(), place: "/budgets", watch, now, body },
    ))
}

/// The budgets as the overview shows them.
pub(super) fn table(budgets: &[&BudgetView], now: Time) -> Markup {
    listed(budgets, now, false)
}

fn listed(budgets: &[&BudgetView], now: Time, admin: bool) -> Markup {
    html! {
        table.rows.stack.roomy {
            thead { tr {
                th { "budget" } th.num { "slots" } th.num { "last second" } th.num { "last minute" } th.num { "last 24 h" } th.wide { span.hidden { "share" } } th { "more" }
                @if admin { th { span.hidden { "what can be done" } } }
            } }
            tbody {
                @for budget in budgets {
                    tr id={ "b-" (encoded(budget.name.as_str())) } data-row {
                        td.text { (bits::name(budget.name.as_str())) }
                        td.num data-l="slots" { (used(budget.used.slots, budget.slots)) }
                        td.num data-l="last second" { (used(budget.used.second, budget.per_second)) }
                        td.num data-l="last minute" { (used(budget.used.minute, budget.per_minute)) }
                        td.num data-l="last 24 h" { (used(budget.used.day, budget.per_day)) }
                        td.wide { (fullest(budget)) }
                        td.nowrap data-l="more" { (more(budget, now)) }
                        @if admin { td.acts { (acts(budget)) } }
                    }
                }
            }
        }
    }
}

fn used(used: u32, of: Option<u32>) -> Markup {
    html! {
        @match of {
            Some(of) => { (number(u64::from(used))) span.quiet { " of " (number(u64::from(of))) } }
            None => { (number(u64::from(used))) }
        }
    }
}

/// The bar of the bound that is nearest.
fn fullest(budget: &BudgetView) -> Markup {
    let bounds = [
        (budget.used.slots, budget.slots),
        (budget.used.second, budget.per_second),
        (budget.used.minute, budget.per_minute),
        (budget.used.day, budget.per_day),
    ];
    let bounds = bounds.into_iter().filter_map(|(used, of)| of.map(|of| (u64::from(used), u64::from(of))));
    let nearest = bounds.max_by_key(|(used, of)| used * 1_000 / (*of).max(1));
    html! { @if let Some((used, of)) = nearest { (bar(used, of)) } }
}

fn more(budget: &BudgetView, now: Time) -> Markup {
    html! {
        @if let Some(until) = budget.cooling_until { span.tag { "cooling" } " over " (moment(until, now)) }
        @else if let Some(at) = budget.free_at { (moment(at, now)) }
        @else if budget.slots.is_some_and(|slots| budget.used.slots >= slots) { "when a job ends" }
        @else { (dash()) }
    }
}

fn acts(budget: &BudgetView) -> Markup {
    let name = encoded(budget.name.as_str());
    html! {
        @if budget.cooling_until.is_some() {
            button type="button" data-post={ "/v1/budgets/" (name) "/cool-down" } data-body=(r#"{"for": "0s"}"#) data-said="It cools down no more" { "End cool-down" }
        }
        details.edit {
            summary { "Cool down" }
            form.fields data-post={ "/v1/budgets/" (name) "/cool-down" } data-said="Cools down"
                data-ask={ "Let the budget " (budget.name) " cool down?" } data-more="No job that names it starts until then." {
                (form::fields(&[Field { name: "for", label: "for", sort: "text", value: Some("30s".to_owned()), hint: "30s, 5m, 2h" }]))
                button.main { "Cool down" }
            }
        }
        details.edit {
            summary { "Edit" }
            form.fields data-put={ "/v1/budgets/" (name) } data-said="Budget set" {
                (form::fields(&fields(Some(budget))))
                button.main { "Set" }
            }
        }
        button.danger type="button" data-delete={ "/v1/budgets/" (name) } data-said="Deleted"
            data-ask={ "Delete the budget " (budget.name) "?" } data-more="Jobs that name it have no bound by it any more, and what was spent is forgotten." { "Delete" }
    }
}

fn fields(budget: Option<&BudgetView>) -> Vec<Field<'static>> {
    let bound = |name, label, of: fn(&BudgetView) -> Option<u32>| {
        let value = budget.and_then(of).map(|bound| bound.to_string());
        Field { name, label, sort: "int", value, hint: "no bound" }
    };
    vec![
        bound("slots", "jobs at once", |budget| budget.slots),
        bound("per_second", "in any second", |budget| budget.per_second),
        bound("per_minute", "in any minute", |budget| budget.per_minute),
        bound("per_day", "in any 24 hours", |budget| budget.per_day),
    ]
}
