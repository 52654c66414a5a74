//! What is around every page: head, navigation, help.

use axum::response::Response;
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use windlass_engine::core::event::Position;
use windlass_engine::core::id::JobId;
use windlass_engine::core::time::Time;

use super::{PART_HEADER, assets};
use crate::answer::with_type;
use crate::ask::Ask;
use crate::settings::Role;

/// The pages, as the navigation names them.
const PLACES: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/queues", "Queues"),
    ("/budgets", "Budgets"),
    ("/schedules", "Schedules"),
    ("/workers", "Workers"),
    ("/actions", "Actions"),
];

/// The keys, as the help names them.
const KEYS: [(&str, &str); 8] = [
    ("/", "search"),
    ("j", "next row"),
    ("k", "row before"),
    ("enter", "open the row"),
    ("x", "select the row"),
    ("esc", "leave, close, select nothing"),
    ("g then o j q b s w a", "go to a page"),
    ("?", "this help"),
];

/// A page before it is framed.
pub(super) struct Sheet {
    /// What the window is called.
    pub title: String,
    /// Which place of the navigation it belongs to.
    pub place: &'static str,
    /// When the browser asks for it again.
    pub watch: Watch,
    pub now: Time,
    pub body: Markup,
}

/// When a page is asked for again.
pub(super) enum Watch {
    /// Never.
    Nothing,
    /// When anything happens after `since`, and every `ticks` seconds.
    All { since: Position, ticks: u32 },
    /// When something happens to this job after `since`, and every `ticks` seconds.
    Job { id: JobId, since: Position, ticks: u32 },
}

/// The page as an answer; only its inner part when that was asked for.
pub(super) fn answer(ask: &Ask, status: StatusCode, sheet: Sheet) -> Response {
    let markup = if ask.headers.contains_key(PART_HEADER) {
        inner(&sheet)
    } else {
        let closed = !ask.api.settings.is_open();
        whole(&sheet, Some(&ask.caller.role), closed)
    };
    with_type(status, "text/html; charset=utf-8", markup.into_string().into())
}

fn inner(sheet: &Sheet) -> Markup {
    let (since, job, ticks) = match &sheet.watch {
        Watch::Nothing => (None, None, None),
        Watch::All { since, ticks } => (Some(since), None, Some(ticks)),
        Watch::Job { id, since, ticks } => (Some(since), Some(id), Some(ticks)),
    };
    html! {
        main #main tabindex="-1" data-now=(sheet.now.ms()) data-since=[since] data-job=[job] data-ticks=[ticks]
            data-title=(sheet.title) { (sheet.body) }
    }
}

/// The whole of a page. `role`: of whoever is signed in.
pub(super) fn whole(sheet: &Sheet, role: Option<&Role>, closed: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (sheet.title) " · windlass" }
                link rel="icon" href=(assets::address("mark.svg"));
                link rel="stylesheet" href=(assets::address("style.css"));
                script type="module" src=(assets::address("main.js")) {}
            }
            body {
                a.skip href="#main" { "To the content" }
                header { (navigation(sheet, role, closed)) }
                (inner(sheet))
                button #held type="button" title="The list is held still while the pointer or the focus is in it" hidden {}
                output #said role="status" {}
                dialog #help aria-label="Keys" { (help()) }
                dialog #ask {}
            }
        }
    }
}

fn navigation(sheet: &Sheet, role: Option<&Role>, closed: bool) -> Markup {
    let live = !matches!(sheet.watch, Watch::Nothing);
    html! {
        a.brand href="/" {
            svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" {
                circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2" {}
                path d="M8 0v4M8 12v4M0 8h4M12 8h4" stroke="currentColor" stroke-width="2" {}
            }
            "windlass"
        }
        @if role.is_some() {
            nav aria-label="Pages" {
                @for (path, name) in PLACES {
                    a href=(path) aria-current=[(path == sheet.place).then_some("page")] { (name) }
                }
            }
            span.right {
                @if live { span #live title="Whether this page hears of what happens" { "…" } }
                a href="/docs" { "API" }
                button.plain #help-open type="button" title="Keys (?)" aria-label="Keys" { "?" }
                @if closed { button.plain #sign-out type="button" { "Sign out" } }
            }
        }
    }
}

fn help() -> Markup {
    html! {
        h2 { "Keys" }
        dl.keys {
            @for (key, does) in KEYS {
                dt { @for (at, part) in key.split(' ').enumerate() {
                    @if at > 0 { " " }
                    @if part == "then" { "then" } @else { kbd { (part) } }
                } }
                dd { (does) }
            }
        }
        form method="dialog" { button { "Close" } }
    }
}
