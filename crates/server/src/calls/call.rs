//! One call: how it is asked for, who may, what it takes and what it gives.

use futures::future::BoxFuture;
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::access::Need;
use crate::answer::Answered;
use crate::ask::Ask;

/// One call.
pub(crate) struct Call {
    pub method: Method,
    pub path: &'static str,
    pub need: Need,
    /// Its name in the document.
    pub id: &'static str,
    pub does: &'static str,
    pub body: Option<(Size, SchemaOf)>,
    pub params: &'static [Param],
    pub answers: Vec<Given>,
    pub refusals: Vec<u16>,
    /// It may take long: a long poll, or a stream.
    pub patient: bool,
    /// It finishes work, or keeps it: it is not refused because others submit.
    pub finishes: bool,
    /// It is for the dashboard alone, and not in the document of the API.
    pub hidden: bool,
    pub run: Run,
}

/// What a call does.
pub(crate) type Run = fn(Ask) -> BoxFuture<'static, Answered>;
/// How a type looks.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// How large a body may be, and of which type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// One payload in its envelope.
    Small,
    /// Many jobs.
    Batch,
    /// JSON or a form of a few fields.
    Form,
}

/// What a call gives.
pub(crate) struct Given {
    pub status: u16,
    pub means: &'static str,
    /// The type, and for JSON how it looks.
    pub content: Option<(&'static str, Option<SchemaOf>)>,
}

/// A parameter of the query.
pub(crate) struct Param {
    pub name: &'static str,
    pub means: &'static str,
    pub schema: &'static str,
    pub repeats: bool,
}

impl Param {
    const fn new(name: &'static str, schema: &'static str, means: &'static str) -> Self {
        Self { name, means, schema, repeats: false }
    }

    /// What a list can be asked for.
    pub(crate) const LIST: &'static [Param] = &[
        Param {
            name: "state",
            means: "In one of these states; repeat it or part them by commas.",
            schema: r#"{"type":"array","items":{"type":"string","enum":["queued","running","completed","failed","canceled"]}}"#,
            repeats: true,
        },
        Param::new("queue", NAME, "In this queue."),
        Param::new("kind", NAME, "Of this kind."),
        Param::new("key", KEY, "With this key."),
        Param::new("since", MOMENT_OR_SPAN, "Accepted at or after this moment, or within this time."),
        Param::new("until", MOMENT_OR_SPAN, "Accepted before this moment, or longer ago than this time."),
        Param::new(
            "text",
            r#"{"type":"string","minLength":1,"maxLength":200}"#,
            "With this text in id, kind, key or payload.",
        ),
        Param::new(
            "error",
            r#"{"type":"string","minLength":1,"maxLength":200}"#,
            "Whose newest error says this: a part of its text, or a group of failures as `/v1/stats` gives it.",
        ),
        Param::new("limit", r#"{"type":"integer","minimum":1,"maximum":200}"#, "How many; 50 when left out."),
        Param::new(
            "cursor",
            r#"{"type":"string","pattern":"^[0-9]{1,18}$"}"#,
            "Where the page before ended.",
        ),
    ];

    /// How one job is looked at.
    pub(crate) const JOB: &'static [Param] = &[Param::new(
        "wait",
        r#"{"type":"string","pattern":"^[0-9]{1,6}(ms|s|m)$"}"#,
        "Answer when the job is over, or when this time is: at most 60s.",
    )];

    /// Where a stream goes on from.
    pub(crate) const EVENTS_PAGE: &'static [Param] =
        &[Param::new("after", POSITION, "What happened after this position.")];

    pub(crate) const EVENTS: &'static [Param] = &[
        Param::new("after", POSITION, "Go on after this position."),
        Param::new(
            "ticks",
            r#"{"type":"integer","minimum":1,"maximum":60}"#,
            "Also an event `tick` every so many seconds, for charts that move.",
        ),
    ];

    /// Where a bite of an audit begins.
    pub(crate) const AUDIT: &'static [Param] = &[Param::new(
        "from",
        r#"{"type":"string","pattern":"^[0-9]{1,10}[.][0-9]{1,20}$"}"#,
        "One bite, from there: what `next` said, or 0.0 to begin.",
    )];

    /// What a page of things with names is asked with.
    pub(crate) const PART: &'static [Param] = &[
        Param::new("after", NAME, "Those behind this one, by name."),
        Param::new("name", NAME, "Those from this one on, by name."),
    ];

    /// How far back charts go.
    pub(crate) const SPAN: &'static [Param] = &[Param::new("span", SPANS, "How far back.")];

    /// Which history is asked for.
    pub(crate) const HISTORY: &'static [Param] = &[
        Param::new("queue", NAME, "Of this queue; of all when left out."),
        Param::new("span", SPANS, "How far back; 1h when left out."),
    ];

    /// What the page to sign in is asked with.
    pub(crate) const SIGN_IN: &'static [Param] = &[
        Param::new("refused", r#"{"type":"string"}"#, "The token was refused."),
        Param::new("next", r#"{"type":"string"}"#, "Where to go then."),
    ];
}

const NAME: &str =
    r#"{"type":"string","minLength":1,"maxLength":128,"pattern":"^[^\\u0000-\\u001f\\u007f-\\u009f]+$"}"#;
const KEY: &str =
    r#"{"type":"string","minLength":1,"maxLength":512,"pattern":"^[^\\u0000-\\u001f\\u007f-\\u009f]+$"}"#;
const POSITION: &str = r#"{"type":"string","pattern":"^[0-9a-f]{1,18}-[0-9]{1,18}$"}"#;
const SPANS: &str = r#"{"type":"string","enum":["1h","6h","24h"]}"#;
const MOMENT_OR_SPAN: &str = r#"{"anyOf":[{"type":"string","format":"date-time"},{"type":"string","pattern":"^[0-9]{1,6}(ms|s|m|h|d)$"}]}"#;

impl Call {
    pub(crate) fn new(method: Method, path: &'static str, need: Need, id: &'static str, run: Run) -> Self {
        let refusals = vec![400, 503];
        Self {
            method,
            path,
            need,
            id,
            does: "",
            body: None,
            params: &[],
            answers: vec![],
            refusals,
            patient: false,
            finishes: false,
            hidden: false,
            run,
        }
    }

    /// A page of the dashboard.
    pub(crate) fn page(path: &'static str, id: &'static str, run: Run) -> Self {
        Self::new(Method::GET, path, Need::Read, id, run).hidden()
    }

    /// Gives it the room of what finishes work.
    pub(super) fn finishes(mut self) -> Self {
        self.finishes = true;
        self
    }

    /// Leaves the call out of the document.
    pub(crate) fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Nobody has to show a token for it.
    pub(crate) fn open(mut self) -> Self {
        self.need = Need::Nothing;
        self
    }

    pub(crate) fn does(mut self, does: &'static str) -> Self {
        self.does = does;
        if self.need != Need::Nothing {
            self.refusals.extend([401, 403, 429]);
        }
        self
    }

    pub(super) fn takes<T: JsonSchema>(mut self, size: Size) -> Self {
        self.body = Some((size, SchemaGenerator::subschema_for::<T>));
        self.refusals.extend([408, 413, 415]);
        self
    }

    pub(crate) fn asks(mut self, params: &'static [Param]) -> Self {
        self.params = params;
        self
    }

    pub(super) fn gives<T: JsonSchema>(mut self, status: u16, means: &'static str) -> Self {
        let content = Some(("application/json", Some(SchemaGenerator::subschema_for::<T> as SchemaOf)));
        self.answers.push(Given { status, means, content });
        self
    }

    pub(crate) fn gives_text(mut self, status: u16, content_type: &'static str, means: &'static str) -> Self {
        self.answers.push(Given { status, means, content: Some((content_type, None)) });
        self
    }

    pub(super) fn gives_nothing(mut self, status: u16, means: &'static str) -> Self {
        self.answers.push(Given { status, means, content: None });
        self
    }

    pub(super) fn refuses(mut self, statuses: &[u16]) -> Self {
        self.refusals.extend(statuses);
        self
    }

    pub(super) fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// The method as text that lives for ever: for labels.
    pub(crate) fn verb(&self) -> &'static str {
        match self.method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            _ => "OTHER",
        }
    }
}
