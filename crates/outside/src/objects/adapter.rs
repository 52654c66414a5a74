//! The guarded client as the HTTP client of the `object_store` crate.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, HOST};
use http_body_util::BodyExt;
use hyper::body::Frame;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError as StoreHttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use url::Url;

use crate::safe_http::{Body, Credentials, Http, HttpError, Limits, Refusal, Request};

/// Makes `object_store` use our client, with our guard and our limits.
#[derive(Debug, Clone)]
pub(super) struct Adapter {
    pub(super) http: Http,
    pub(super) limits: Limits,
}

impl HttpConnector for Adapter {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Adapter {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, StoreHttpError> {
        let request = self.translate(request).await?;
        let answer = self.http.send(request).await.map_err(failure)?;
        let mut response = http::Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let pieces = answer.into_stream().map(|piece| piece.map(Frame::data).map_err(failure)).boxed();
        let body = HttpResponseBody::new(Shared(Mutex::new(pieces)));
        response.body(body).map_err(|error| StoreHttpError::new(HttpErrorKind::Unknown, error))
    }
}

impl Adapter {
    async fn translate(&self, request: HttpRequest) -> Result<Request, StoreHttpError> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|_| failure(Refusal::NotAUrl.into()))?;
        // Only what is small comes this way: questions for tokens and for heads.
        let body = body.collect().await?.to_bytes();
        let mut ours =
            Request::new(head.method, url.clone(), Body::bytes(body)).identity().limits(self.limits);
        for (name, value) in &head.headers {
            let value = value.to_str().map_err(|_| failure(Refusal::Header("it is no text").into()))?;
            ours = match name {
                &AUTHORIZATION => {
                    ours.credentials(Credentials::header(&url, value).map_err(|no| failure(no.into()))?)
                }
                &HOST | &CONTENT_LENGTH | &ACCEPT_ENCODING => ours,
                name => ours.header(name.clone(), value).map_err(|no| failure(no.into()))?,
            };
        }
        Ok(ours)
    }
}

fn failure(error: HttpError) -> StoreHttpError {
    let kind = match &error {
        HttpError::Timeout { .. } => HttpErrorKind::Timeout,
        HttpError::Connect { .. } | HttpError::Resolve { .. } | HttpError::Tls { .. } => {
            HttpErrorKind::Connect
        }
        HttpError::Cut { .. } => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    StoreHttpError::new(kind, error)
}

/// Our error within one of `object_store`, if there is one.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> Option<HttpError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(ours) = error.downcast_ref::<HttpError>() {
            return Some(ours.clone());
        }
        if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            next = Some(inner);
            continue;
        }
        next = error.source();
    }
    None
}

/// A stream that may be shared between threads, as that crate wants it; only one ever reads it.
struct Shared(Mutex<BoxStream<'static, Result<Frame<Bytes>, StoreHttpError>>>);

impl hyper::body::Body for Shared {
    type Data = Bytes;
    type Error = StoreHttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StoreHttpError>>> {
        let stream = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        stream.poll_next_unpin(cx)
    }
}
