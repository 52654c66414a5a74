//! A stream on its way into a file, counted and hashed.

use std::fmt;
use std::pin::pin;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::{ObjectsError, PutSource};

/// What a content is: its length and its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The length.
    pub bytes: u64,
    /// The SHA-256.
    pub sha256: [u8; 32],
}

impl Content {
    /// The SHA-256 in hexadecimal digits.
    pub fn sha256_hex(&self) -> String {
        self.sha256.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes, {})", self.bytes, self.sha256_hex())
    }
}

/// Writes a stream to a file, to its end or to the limit.
pub(super) async fn spool<E: Into<PutSource>>(
    file: &mut File,
    bytes_max: u64,
    stream: impl Stream<Item = Result<Bytes, E>> + Send,
) -> Result<Content, ObjectsError> {
    let (mut stream, mut hash, mut bytes) = (pin!(stream), Sha256::new(), 0);
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| error.into().0)?;
        bytes += piece.len() as u64;
        if bytes > bytes_max {
            return Err(ObjectsError::TooLarge { bytes_max });
        }
        hash.update(&piece);
        file.write_all(&piece).await?;
    }
    file.flush().await?;
    Ok(Content { bytes, sha256: hash.finalize().into() })
}
