//! Views of the list of jobs that were saved.

use maud::{Markup, html};

use super::filter::View;
use crate::api::views::View as Saved;
pub(super) use crate::api::views::all;

/// The saved views, and the form to save this one.
pub(super) fn saved(saved: &[Saved], view: &View, admin: bool) -> Markup {
    let query = view.query(None);
    let here = saved.iter().find(|saved| saved.query == query);
    html! {
        @if !saved.is_empty() || (admin && !view.is_empty()) {
            nav.chips aria-label="Saved views" {
                @for Saved { name, query: its } in saved {
                    a.chip href={ "/jobs?" (its) } aria-current=[(*its == query).then_some("true")] { (name) }
                }
                @if let Some(here) = here.filter(|_| admin) {
                    button.plain type="button" data-delete={ "/v1/views/" (super::encoded(&here.name)) } data-said="Forgotten"
                        data-ask={ "Forget the view " (here.name) "?" } data-more="It is gone for everybody. Jobs stay as they are." { "forget this view" }
                }
                @if admin && here.is_none() && !view.is_empty() {
                    details.edit {
                        summary.plain { "save this view" }
                        form.fields data-put="/v1/views/{name}" data-said="Saved for everybody" {
                            label { span { "name" } input name="{name}" required maxlength="60" autocomplete="off" spellcheck="false"; }
                            input type="hidden" name="query" value=(query);
                            button.main { "Save" }
                        }
                    }
                }
            }
        }
    }
}
