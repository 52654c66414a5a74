//! Exit codes, as the help says them.

use std::process::ExitCode;

use windlass::OpenError;
use windlass_engine::core::error::{Invalid, StoreError};

use crate::command::which::Unnamed;

/// Something that a command was asked for and is refused, with its code; `main` says it, as text or as JSON.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Told {
    code: Code,
    message: String,
}

/// There is no such thing.
pub fn not_found(message: impl Into<String>) -> anyhow::Error {
    Told { code: Code::NotFound, message: message.into() }.into()
}

/// It is refused; nothing was changed.
pub fn refused(message: impl Into<String>) -> anyhow::Error {
    Told { code: Code::Refused, message: message.into() }.into()
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Done = 0,
    /// It failed, or something is wrong.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// It was refused; nothing was changed.
    Refused = 4,
}

impl Code {
    /// The code for an error.
    pub fn of(error: &anyhow::Error) -> Self {
        if let Some(told) = error.chain().find_map(|cause| cause.downcast_ref::<Told>()) {
            return told.code;
        }
        if error.chain().any(|cause| cause.is::<Invalid>()) {
            return Self::Usage;
        }
        if error.chain().any(|cause| matches!(cause.downcast_ref(), Some(OpenError::Missing { .. }))) {
            return Self::NotFound;
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<Unnamed>()) {
            Some(Unnamed::Nobody(_)) => return Self::NotFound,
            Some(Unnamed::Several { .. } | Unnamed::Unsure { .. }) => return Self::Usage,
            None => {}
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()) {
            Some(StoreError::Invalid(_)) => Self::Usage,
            Some(StoreError::Conflict(_)) => Self::Refused,
            _ => Self::Failed,
        }
    }

    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Usage => "invalid",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Done | Self::Failed => "failed",
        }
    }

    /// The worse of two.
    pub fn worst(self, other: Self) -> Self {
        if other as u8 > self as u8 { other } else { self }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error for programs, in the form in which the API says one.
pub fn as_json(error: &anyhow::Error) -> serde_json::Value {
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()).map(StoreError::code);
    let code = store.unwrap_or(Code::of(error).word());
    serde_json::json!({ "error": { "code": code, "message": format!("{error:#}") } })
}

/// Ends the program over words that are wrong, or that ask for help: as clap does it, or for programs as JSON.
pub fn misused(error: &clap::Error, json: bool) -> ! {
    if !json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let message = text.trim().trim_start_matches("error: ");
    eprintln!("{}", serde_json::json!({ "error": { "code": Code::Usage.word(), "message": message } }));
    std::process::exit(Code::Usage as i32)
}
