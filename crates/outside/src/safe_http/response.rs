//! An answer whose body is read within the limits of its request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::decode::{DecodeError, Decoder};
use super::error::HttpError;
use super::exchange;
use super::origin::Origin;
use crate::retry_after::RetryAfter;

/// The time that is left for a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) total: Duration,
}

impl Deadline {
    pub(super) async fn within<T>(
        self,
        origin: &Origin,
        work: impl Future<Output = Result<T, HttpError>>,
    ) -> Result<T, HttpError> {
        let late = |_| Err(HttpError::Timeout { origin: origin.clone(), total: self.total });
        tokio::time::timeout_at(self.at, work).await.unwrap_or_else(late)
    }
}

/// An answer: its head is there, its body is read piece by piece.
pub struct Response {
    pub(super) origin: Origin,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Incoming,
    pub(super) decoder: Decoder,
    pub(super) deadline: Deadline,
    pub(super) bytes_max: u64,
    pub(super) ended: bool,
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Response({} from {})", self.status, self.origin)
    }
}

impl Response {
    /// Who answered, after all redirects.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// A header, when it is readable text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The content type without its parameters, in lower case: `audio/ogg` of
    /// `Audio/OGG; codecs=opus`.
    pub fn essence(&self) -> Option<String> {
        let value = self.header(CONTENT_TYPE)?;
        let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        (!essence.is_empty()).then_some(essence)
    }

    /// The length that the answer declares for its body as it is sent.
    pub fn declared_bytes(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH)?.parse().ok()
    }

    /// This answer, if its status is a success.
    pub fn ok(self) -> Result<Self, HttpError> {
        if (200..300).contains(&self.status) { Ok(self) } else { Err(self.status_error()) }
    }

    /// The error that this answer's status is.
    pub fn status_error(&self) -> HttpError {
        let retry_after = self.header(RETRY_AFTER).and_then(RetryAfter::parse);
        HttpError::Status { origin: self.origin.clone(), status: self.status, retry_after }
    }

    /// The next piece of the decoded body; `None` at its end.
    pub fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpError>> {
        Box::pin(self.next_chunk())
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            match self.decoder.next() {
                Ok(Some(bytes)) => return Ok(Some(bytes)),
                Ok(None) if self.ended => return Ok(None),
                Ok(None) => {}
                Err(error) => return Err(self.decode_error(&error)),
            }
            let frame = self.deadline.within(&self.origin, async {
                let frame = self.body.frame().await.transpose();
                frame.map_err(|error| exchange::failure(&self.origin, &error))
            });
            match frame.await? {
                Some(frame) => self.decoder.feed(frame.into_data().unwrap_or_default()),
                None => {
                    self.ended = true;
                    let rest = self.decoder.finish().map_err(|error| self.decode_error(&error))?;
                    if rest.is_some() {
                        return Ok(rest);
                    }
                }
            }
        }
    }

    /// The whole decoded body.
    pub fn bytes(mut self) -> BoxFuture<'static, Result<Bytes, HttpError>> {
        Box::pin(async move {
            let Some(first) = self.next_chunk().await? else { return Ok(Bytes::new()) };
            let Some(second) = self.next_chunk().await? else { return Ok(first) };
            let mut all = BytesMut::from(&first[..]);
            all.extend_from_slice(&second);
            while let Some(more) = self.next_chunk().await? {
                all.extend_from_slice(&more);
            }
            Ok(all.freeze())
        })
    }

    /// The body as a stream, with the same limits.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, HttpError>> + Send {
        futures::stream::try_unfold(self, |mut response| async {
            Ok(response.chunk().await?.map(|bytes| (bytes, response)))
        })
    }

    fn decode_error(&self, error: &DecodeError) -> HttpError {
        let origin = self.origin.clone();
        match error {
            DecodeError::TooLarge => HttpError::TooLarge { origin, bytes_max: self.bytes_max },
            DecodeError::Broken => HttpError::BrokenBody { origin },
        }
    }
}
