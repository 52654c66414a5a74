//! A file as a stream.

use std::io;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// How much of a file is read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A file in pieces, from where it stands to its end.
pub(crate) fn pieces(file: File) -> BoxStream<'static, io::Result<Bytes>> {
    let next = |mut file: File| async {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let read = file.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (piece.freeze(), file)))
    };
    stream::try_unfold(file, next).boxed()
}
