//! Budgets: what they allow, what is used, cool-down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::core::id::BudgetName;
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::store::Spent;
use windlass_engine::core::time::{Span, Time};
use windlass_report::schema::{Duration, Moment};
use windlass_report::view::BudgetView;

use super::Api;
use crate::answer::{Answered, Refusal, nothing, ok};
use crate::ask::Ask;

/// The budgets.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Budgets")]
pub(crate) struct BudgetsView {
    budgets: Vec<BudgetView>,
}

/// What a budget allows. What is left out has no bound.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewBudget")]
pub(crate) struct BudgetBody {
    /// How many jobs that name it may run at once.
    #[serde(default)]
    slots: Option<u32>,
    /// How much may be spent in any stretch of one second.
    #[serde(default)]
    per_second: Option<u32>,
    /// How much may be spent in any stretch of one minute.
    #[serde(default)]
    per_minute: Option<u32>,
    /// How much may be spent in any stretch of 24 hours.
    #[serde(default)]
    per_day: Option<u32>,
}

/// How long a budget cools down: one of the two.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CoolDown")]
pub(crate) struct CoolDownBody {
    /// For so long.
    #[serde(default, rename = "for")]
    #[schemars(with = "Option<Duration>")]
    length: Option<Span>,
    /// Until this moment.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    until: Option<Time>,
}

/// `GET /v1/budgets`
pub(crate) async fn list(ask: Ask) -> Answered {
    let now = ask.api.now().await?;
    let budgets = ask.api.store.budgets().await?;
    ok(&BudgetsView { budgets: budgets.into_iter().map(|budget| BudgetView::new(budget, now)).collect() })
}

/// `GET /v1/budgets/{name}`
pub(crate) async fn get(ask: Ask) -> Answered {
    let name = ask.name()?;
    one(&ask.api, &name).await
}

/// `PUT /v1/budgets/{name}`
pub(crate) async fn put(ask: Ask) -> Answered {
    let name: BudgetName = ask.name()?;
    let BudgetBody { slots, per_second, per_minute, per_day } = ask.body()?;
    let policy = BudgetPolicy { slots, per_second, per_minute, per_day };
    ask.api.store.put_budget(name.clone(), policy).await?;
    tracing::info!(budget = ?name.as_str(), by = ?ask.caller.name, "budget set");
    one(&ask.api, &name).await
}

/// `DELETE /v1/budgets/{name}`
pub(crate) async fn delete(ask: Ask) -> Answered {
    let name: BudgetName = ask.name()?;
    if !ask.api.store.delete_budget(name.clone()).await? {
        return Err(Refusal::not_found("budget"));
    }
    tracing::info!(budget = ?name.as_str(), by = ?ask.caller.name, "budget deleted");
    nothing()
}

/// `POST /v1/budgets/{name}/cool-down`
pub(crate) async fn cool_down(ask: Ask) -> Answered {
    let name: BudgetName = ask.name()?;
    let CoolDownBody { length, until } = ask.body()?;
    let for_ms = match (length, until) {
        (Some(length), None) => length.ms(),
        (None, Some(until)) => until.ms_since(ask.api.now().await?),
        (Some(_), Some(_)) => return Err(Refusal::field("until", "cannot be said together with for")),
        (None, None) => return Err(Refusal::field("for", "or until is needed")),
    };
    ask.api.store.cool_down(name.clone(), for_ms).await?;
    tracing::info!(budget = ?name.as_str(), for_ms, by = ?ask.caller.name, "budget cools down");
    one(&ask.api, &name).await
}

/// How much of a budget is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Spend")]
pub(crate) struct SpendBody {
    amount: u32,
}

/// What became of the wish.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Spent")]
pub(crate) struct SpentView {
    /// `granted`; `wait`: not now, and nothing was spent; `never`: more than the budget ever allows.
    status: &'static str,
    /// With `wait`: in how many milliseconds to ask again.
    in_ms: Option<u64>,
}

/// `POST /v1/budgets/{name}/spend`
pub(crate) async fn spend(ask: Ask) -> Answered {
    let name: BudgetName = ask.name()?;
    let SpendBody { amount } = ask.body()?;
    let (status, in_ms) = match ask.api.store.spend(name, amount).await? {
        Spent::Granted => ("granted", None),
        Spent::Wait { in_ms } => ("wait", Some(in_ms)),
        Spent::Never => ("never", None),
    };
    ok(&SpentView { status, in_ms })
}

async fn one(api: &Api, name: &BudgetName) -> Answered {
    let now = api.now().await?;
    let found = api.store.budgets().await?.into_iter().find(|status| status.budget.name == *name);
    ok(&BudgetView::new(found.ok_or_else(|| Refusal::not_found("budget"))?, now))
}
