//! What an empty page says: what to do first.

use maud::{Markup, html};

use crate::ask::Ask;

/// Nothing was ever enqueued here.
pub(super) fn store(ask: &Ask, can_sample: bool) -> Markup {
    let host = ask.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let address = format!("http://{}", host.unwrap_or("127.0.0.1:7717"));
    let token =
        if ask.api.settings.is_open() { "" } else { " \\\n  -H \"authorization: Bearer $WINDLASS_TOKEN\"" };
    let enqueue = format!(
        "curl -s {address}/v1/jobs{token} \\\n  -H 'content-type: application/json' -d '{{\"kind\": \"hello\"}}'"
    );
    html! {
        section.empty {
            h1 { "Nothing has happened here yet" }
            @if can_sample {
                p { "Start the sample to see it move: a worker inside this server and a modest stream of jobs that "
                    "succeed, fail, retry, wait for a key, run in steps and take a budget." }
                p { button.main data-post="/v1/sample" data-said="The sample has started" { "Start the sample" } }
                p { "Or begin with your own. First a job:" }
            } @else {
                p { "First a job:" }
            }
            (snippet(&enqueue))
            p { "Then whoever runs it. Any program is a worker:" }
            (snippet("windlass work --kind hello -- ./hello.sh"))
            p { a href="/docs" { "All calls of the API" } }
        }
    }
}

/// Nothing of this sort is there, and how to make one.
pub(super) fn none(what: &str, how: &str, example: &str) -> Markup {
    html! {
        section.empty {
            h2 { (what) }
            p { (how) }
            (snippet(example))
        }
    }
}

fn snippet(text: &str) -> Markup {
    html! { div.json { button.copy type="button" data-copy=(text) { "Copy" } pre { (text) } } }
}
