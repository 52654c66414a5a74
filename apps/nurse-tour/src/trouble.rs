//! What can go wrong with a message, in classes that say what follows.

use std::fmt;
use std::time::Duration;

use windlass_engine::core::time::Time;
use windlass_outside::objects::ObjectsError;
use windlass_outside::openai::OpenAiError;
use windlass_outside::retry_after::RetryAfter;
use windlass_outside::twilio::TwilioError;

use crate::database::DatabaseError;
use crate::mapping::NEEDS_HUMAN;

/// What follows from a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// It may pass: tried again by the ladder.
    Transient,
    /// It cannot pass: failed at once.
    Permanent,
    /// The operator must act: nothing more is claimed, no try is used.
    Configuration,
    /// The provider wants to be left alone for a while: no try is used.
    RateLimit,
    /// A person must decide: the message is set aside for triage.
    NeedsHuman,
}

impl Class {
    /// The word for it in reasons, logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Configuration => "configuration",
            Self::RateLimit => "rate_limit",
            Self::NeedsHuman => NEEDS_HUMAN,
        }
    }
}

/// A trouble: class, whose it is, and a code. Never a word of anybody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What follows.
    pub class: Class,
    /// Whose it is: `twilio`, `openai`, `objects`, `database`, `message`.
    pub provider: &'static str,
    /// A short code that never changes.
    pub code: String,
    /// The status code, when an answer came.
    pub status: Option<u16>,
    /// When the provider wants to be asked again, if it said so.
    pub after: Option<RetryAfter>,
}

impl Trouble {
    pub(crate) fn new(class: Class, provider: &'static str, code: impl Into<String>) -> Self {
        Self { class, provider, code: code.into(), status: None, after: None }
    }

    pub(crate) fn permanent(code: &str) -> Self {
        Self::new(Class::Permanent, "message", code)
    }

    pub(crate) fn needs_human(code: &str) -> Self {
        Self::new(Class::NeedsHuman, "message", code)
    }

    /// How long to wait from `now`, by what the provider said, and no longer than `most`.
    pub fn delay(&self, now: Time, most: Duration) -> Option<Duration> {
        self.after.map(|after| after.delay(u64::try_from(now.ms()).unwrap_or(0)).min(most))
    }
}

/// The reason as it is stored and logged: `transient openai.upstream status=503`.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.class.word(), self.provider, self.code)?;
        match self.status {
            Some(status) => write!(f, " status={status}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<TwilioError> for Trouble {
    fn from(error: TwilioError) -> Self {
        let status = match &error {
            TwilioError::Configuration { status } => Some(*status),
            TwilioError::Http(inner) => inner.status(),
            TwilioError::Missing => Some(404),
            _ => None,
        };
        let after = match &error {
            TwilioError::Http(inner) => inner.retry_after(),
            _ => None,
        };
        let class = match &error {
            TwilioError::Configuration { .. } => Class::Configuration,
            _ if status == Some(429) => Class::RateLimit,
            error if error.is_transient() => Class::Transient,
            _ => Class::Permanent,
        };
        Self { status, after, ..Self::new(class, "twilio", error.code()) }
    }
}

impl From<OpenAiError> for Trouble {
    fn from(error: OpenAiError) -> Self {
        let class = match &error {
            // No money is no fault of the message: it waits until somebody has paid.
            OpenAiError::Configuration { .. } | OpenAiError::NoSuchModel { .. } | OpenAiError::Quota => {
                Class::Configuration
            }
            OpenAiError::RateLimit { .. } => Class::RateLimit,
            // The transcript is there; a person can do what the model would not.
            OpenAiError::Refusal | OpenAiError::Truncated | OpenAiError::Filtered => Class::NeedsHuman,
            error if error.is_transient() => Class::Transient,
            _ => Class::Permanent,
        };
        let (status, detail) = match &error {
            OpenAiError::Configuration { status, .. } | OpenAiError::NoSuchModel { status, .. } => {
                (Some(*status), None)
            }
            OpenAiError::Permanent { status, code } => (Some(*status), Some(code)),
            OpenAiError::Upstream { status, .. } => (Some(*status), None),
            OpenAiError::RateLimit { .. } | OpenAiError::Quota => (Some(429), None),
            OpenAiError::Http(inner) => (inner.status(), None),
            _ => (None, None),
        };
        let code = match detail {
            Some(detail) => format!("{}.{}", error.code(), known_code(detail)),
            None => error.code().to_owned(),
        };
        Self { status, after: error.retry_after(), ..Self::new(class, "openai", code) }
    }
}

/// OpenAI's codes that help an operator. Any other could be somebody's name.
fn known_code(code: &str) -> &'static str {
    const KNOWN: [&str; 8] = [
        "model_not_found",
        "invalid_request_error",
        "server_error",
        "unsupported_audio",
        "unsupported_value",
        "invalid_value",
        "context_length_exceeded",
        "none",
    ];
    KNOWN.into_iter().find(|known| *known == code).unwrap_or("other")
}

impl From<ObjectsError> for Trouble {
    fn from(error: ObjectsError) -> Self {
        match &error {
            ObjectsError::Source(inner) => TwilioError::Http(inner.clone()).into(),
            ObjectsError::TooLarge { .. } => Self::permanent("too_large"),
            ObjectsError::Configuration
            | ObjectsError::NoCredentials
            | ObjectsError::BadCredentials
            | ObjectsError::NoBucket => Self::new(Class::Configuration, "objects", error.code()),
            ObjectsError::Store(inner) if inner.status() == Some(429) => Self {
                status: Some(429),
                after: inner.retry_after(),
                ..Self::new(Class::RateLimit, "objects", error.code())
            },
            error if error.is_transient() => Self::new(Class::Transient, "objects", error.code()),
            error => Self::new(Class::Permanent, "objects", error.code()),
        }
    }
}

impl From<DatabaseError> for Trouble {
    fn from(error: DatabaseError) -> Self {
        let class = match error.code() {
            _ if error.is_transient() => Class::Transient,
            // The schema is not what it should be: no fault of the message, and nothing that passes by itself.
            code if code.starts_with("42") || code.starts_with("3F") => Class::Configuration,
            code if ["22", "23", "P0"].iter().any(|class| code.starts_with(class)) => Class::Permanent,
            _ => Class::Transient,
        };
        Self::new(class, "database", error.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(trouble: impl Into<Trouble>, expected: &str) {
        assert_eq!(trouble.into().to_string(), expected);
    }

    #[test]
    fn every_class() {
        check(TwilioError::Missing, "transient twilio.missing status=404");
        check(TwilioError::NotOurs, "permanent twilio.not_ours");
        check(TwilioError::Configuration { status: 401 }, "configuration twilio.configuration status=401");
        check(OpenAiError::Quota, "configuration openai.insufficient_quota status=429");
        check(OpenAiError::RateLimit { retry_after: None }, "rate_limit openai.rate_limit status=429");
        check(
            OpenAiError::Upstream { status: 500, retry_after: None },
            "transient openai.upstream status=500",
        );
        check(OpenAiError::Refusal, "needs_human openai.refusal");
        check(OpenAiError::Malformed("x"), "transient openai.malformed");
        let too_large = OpenAiError::Permanent { status: 413, code: "none".into() };
        check(too_large, "permanent openai.permanent.none status=413");
        check(ObjectsError::Configuration, "configuration objects.configuration");
        check(ObjectsError::NoBucket, "configuration objects.no_such_bucket");
        check(ObjectsError::NoCredentials, "configuration objects.no_credentials");
        let no_model = OpenAiError::NoSuchModel { status: 404, code: "model_not_found".into() };
        check(no_model, "configuration openai.no_such_model status=404");
        check(ObjectsError::TooLarge { bytes_max: 1 }, "permanent message.too_large");
        check(ObjectsError::Disk(std::io::ErrorKind::StorageFull), "transient objects.disk");
    }
}
