//! The beginning of an answer that is an error.

use crate::safe_http::Response;

/// How much of an error's body is read: enough for its code.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The first part of a body, as far as it came.
pub(crate) async fn beginning(mut answer: Response) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        all.extend_from_slice(&piece);
        if all.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    all
}
