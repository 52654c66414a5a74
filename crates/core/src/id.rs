//! Ids and names. A name is checked once, when it comes in, and is then
//! known to be short, not empty and free of control characters.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::error::Invalid;

/// The id of a job: a UUID, made by the client (version 7) or chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::parse_str(text).map(JobId).map_err(|_| Invalid::new("id", "is not a UUID"))
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $field:literal, $bytes_max:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest name of this sort, in bytes.
            pub const BYTES_MAX: usize = $bytes_max;

            /// Checks and takes a name.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                check_name($field, text.as_ref(), Self::BYTES_MAX)?;
                Ok(Self(Arc::from(text.as_ref())))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

names! {
    /// What sort of work a job is; decides which handler runs it.
    Kind, "kind", 128;
    /// The name of a queue.
    QueueName, "queue", 128;
    /// Of the running jobs of one queue, at most one has a given key.
    Key, "key", 512;
    /// At most one job that is not final has a given dedupe key.
    DedupeKey, "dedupe_key", 512;
    /// The name of a budget.
    BudgetName, "budget", 128;
    /// The name of a step inside a job.
    StepName, "step", 128;
    /// The name of a worker process.
    WorkerName, "worker", 256;
    /// The name of a schedule.
    ScheduleName, "schedule", 128;
    /// The name of a shelf of records.
    ShelfName, "shelf", 128;
    /// The name of a record on its shelf.
    RecordKey, "record", 512;
    /// What a record is marked with.
    Label, "label", 128;
}

impl Default for QueueName {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

fn check_name(field: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty"));
    }
    if text.len() > bytes_max {
        return Err(Invalid::new(
            field,
            format!("has {} bytes; at most {bytes_max} are allowed", text.len()),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, "contains a control character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for (text, expected) in [
            ("", Some("queue is empty")),
            ("a\u{0}b", Some("queue contains a control character")),
            ("a\nb", Some("queue contains a control character")),
            ("<script>alert(1)</script>", None),
            ("größe", None),
        ] {
            let found = QueueName::new(text).err().map(|e| e.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
        assert!(Kind::new("x".repeat(128)).is_ok());
        assert_eq!(
            Kind::new("x".repeat(129)).unwrap_err().to_string(),
            "kind has 129 bytes; at most 128 are allowed"
        );
    }
}
