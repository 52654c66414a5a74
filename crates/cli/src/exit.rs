//! Exit codes, as the help says them.

use std::process::ExitCode;

use windlass_engine::core::error::{Invalid, StoreError};

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
        if error.chain().any(|cause| cause.is::<Invalid>()) {
            return Self::Usage;
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()) {
            Some(StoreError::Invalid(_)) => Self::Usage,
            Some(StoreError::Conflict(_)) => Self::Refused,
            _ => Self::Failed,
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
