//! Forms that are sent to the API as JSON by `act.js`: a field that is left
//! empty is left out.

use maud::{Markup, html};

/// One field.
pub(super) struct Field<'a> {
    pub name: &'static str,
    pub label: &'static str,
    /// `text`, `int`, `json`, or `choice:a,b`.
    pub sort: &'static str,
    pub value: Option<String>,
    pub hint: &'a str,
}

/// The fields of a form.
pub(super) fn fields(fields: &[Field<'_>]) -> Markup {
    html! {
        @for Field { name, label, sort, value, hint } in fields {
            label {
                span { (label) }
                @if let Some(choices) = sort.strip_prefix("choice:") {
                    select name=(name) data-sort="text" {
                        @for choice in choices.split(',') {
                            option selected[value.as_deref() == Some(choice)] { (choice) }
                        }
                    }
                } @else if *sort == "json" {
                    textarea name=(name) data-sort="json" rows="3" spellcheck="false" placeholder=(hint) { (value.as_deref().unwrap_or("")) }
                } @else {
                    input name=(name) data-sort=(sort) value=[value] placeholder=(hint) autocomplete="off" spellcheck="false"
                        inputmode=[(*sort == "int").then_some("numeric")];
                }
            }
        }
    }
}

/// A form that puts a thing under a name that is typed into it.
pub(super) fn new(title: &str, path: &str, more: Markup) -> Markup {
    html! {
        details.new {
            summary { (title) }
            form.fields data-put={ (path) "/{name}" } data-said="Set" {
                label { span { "name" } input name="{name}" required maxlength="128" autocomplete="off" spellcheck="false"; }
                (more)
                button.main { "Set" }
            }
        }
    }
}
