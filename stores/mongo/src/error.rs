//! What the server says, as the errors of a store.
//!
//! Only the server's message is passed on: its details may hold a document, and with it a payload.

use mongodb::error::{Error, ErrorKind, TRANSIENT_TRANSACTION_ERROR, WriteFailure};
use windlass_core::error::StoreError;

/// A document or a message was larger than MongoDB takes.
const TOO_LARGE: [i32; 2] = [10_334, 17_280];
/// Two writes met; the same call may simply be made again.
const WRITE_CONFLICT: i32 = 112;
/// Transactions, and majorities, are for replica sets.
const ILLEGAL_OPERATION: i32 = 20;

/// Whether a transaction that failed like this changed nothing and may be tried again.
pub(crate) fn may_try_again(error: &Error) -> bool {
    error.contains_label(TRANSIENT_TRANSACTION_ERROR) || code(error) == Some(WRITE_CONFLICT)
}

/// The code of what the server refused.
pub(crate) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(refused) => Some(refused.code),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => Some(refused.code),
        _ => None,
    }
}

/// The error of a store.
pub(crate) fn said(error: &Error) -> StoreError {
    match &*error.kind {
        ErrorKind::Command(refused) if TOO_LARGE.contains(&refused.code) => {
            StoreError::Unfit(format!("it is larger than MongoDB takes ({})", refused.code_name))
        }
        ErrorKind::Command(refused) if refused.code == ILLEGAL_OPERATION => StoreError::Schema(format!(
            "MongoDB says {} ({}); a replica set is needed, also for a single node: start mongod with --replSet",
            refused.message, refused.code_name
        )),
        ErrorKind::Command(refused) => {
            StoreError::Unavailable(format!("MongoDB says {} ({})", refused.message, refused.code_name))
        }
        ErrorKind::InvalidArgument { message, .. } => StoreError::Schema(message.clone()),
        ErrorKind::BsonSerialization(_) | ErrorKind::BsonDeserialization(_) => {
            StoreError::Broken(format!("a document of MongoDB cannot be read: {error}"))
        }
        ErrorKind::Authentication { message, .. } => {
            StoreError::Unavailable(format!("MongoDB does not let us in: {message}"))
        }
        _ => StoreError::Unavailable(format!("MongoDB: {}", error.kind)),
    }
}

/// What a `?` needs: the driver's error as the store's.
pub(crate) fn failed(error: Error) -> StoreError {
    said(&error)
}
