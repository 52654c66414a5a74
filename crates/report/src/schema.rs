//! How the texts of the API look, for the document. Only shapes: the types of
//! core do the checking.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident, $schema:tt;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

shapes! {
    /// The id of a job.
    Id, { "type": "string", "format": "uuid" };
    /// A moment: RFC 3339, UTC, milliseconds.
    Moment, { "type": "string", "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"] };
    /// A length of time.
    Duration, { "type": "string", "pattern": "^[0-9]{1,9}(ms|s|m|h)$|^[0-9]{1,3}d$", "examples": ["30s"] };
    /// A name of up to 128 bytes.
    Name, { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" };
    /// A name of up to 256 bytes.
    WorkerText, { "type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" };
    /// A key of up to 512 bytes.
    KeyText, { "type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" };
    /// Delays between attempts.
    LadderText, { "type": "string", "pattern": "^(none|[ ,]*(([0-9]{1,6}(ms|s|m|h)|[0-9]{1,3}d)([ ,]+([0-9]{1,6}(ms|s|m|h)|[0-9]{1,3}d)){0,20}[ ,]*)?)$", "examples": ["1m 5m 1h", "none"] };
    /// Any JSON: at most 64 deep, integers within 64 bits, no duplicate keys, no NUL.
    AnyJson, { "description": "Any JSON: at most 64 deep, integers within 64 bits, no duplicate keys, no NUL." };
    /// A state.
    StateText, { "type": "string", "enum": ["queued", "running", "completed", "failed", "canceled"] };
    /// What the claim gave with the lease.
    TicketText, { "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]+$" };
    /// A place in the stream of events.
    PositionText, { "type": "string", "pattern": "^[0-9a-f]+-[0-9]+$" };
}
