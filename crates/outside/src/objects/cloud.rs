//! Objects in a bucket of Google Cloud Storage.
//!
//! The `object_store` crate finds the credentials (a service account's key, a
//! user's, the machine's own), asks for tokens and reads objects. Putting is
//! done here: that crate holds in memory what it puts, or in parts of several
//! megabytes, and cannot put in parts only if absent.

use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http::header::CONTENT_TYPE;
use http::{HeaderName, Method};
use object_store::gcp::{GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::path::Path;
use object_store::{ObjectStoreExt, RetryConfig, StaticCredentialProvider};
use tokio::io::AsyncSeekExt;
use url::Url;

use super::adapter::{Adapter, cause};
use super::key::is_plain;
use super::spool::{Content, spool};
use super::{Object, ObjectKey, ObjectsError, Put, PutSource};
use crate::pieces::pieces;
use crate::safe_http::{Body, Credentials, Guard, Http, HttpError, Limits, Request};
use crate::secret::Secret;

/// Where Google's storage is.
const URL: &str = "https://storage.googleapis.com";
/// Where a machine of Google's learns who it is; inside, and yet to be asked.
const METADATA: &str = "http://metadata.google.internal";

/// How a bucket is reached. The default is Google's own, with the credentials
/// that the environment has (`GOOGLE_APPLICATION_CREDENTIALS`, or the machine's).
#[derive(Clone)]
pub struct CloudSettings {
    /// Where the storage is, if not at Google.
    pub base: Option<Url>,
    /// A token to use instead of the environment's credentials.
    pub token: Option<Secret<String>>,
    /// The limits of a call.
    pub limits: Limits,
}

impl Default for CloudSettings {
    /// Google's own, 60 s and 100 MB a call.
    fn default() -> Self {
        let limits = Limits { total: Duration::from_secs(60), bytes_max: 100_000_000, ..Limits::default() };
        Self { base: None, token: None, limits }
    }
}

/// A bucket, or a part of it. It has no `Debug`: that of the crate beneath
/// prints tokens.
#[derive(Clone)]
pub(super) struct Cloud {
    store: Arc<GoogleCloudStorage>,
    http: Http,
    base: Url,
    bucket: String,
    prefix: Vec<String>,
    limits: Limits,
}

impl Cloud {
    pub(super) fn open(url: &Url, settings: CloudSettings) -> Result<Self, ObjectsError> {
        let bucket = url.host_str().filter(|host| !host.is_empty());
        let bucket = bucket.ok_or(ObjectsError::Address("it names no bucket"))?.to_owned();
        let prefix: Vec<String> =
            url.path().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        // A prefix may begin with a dot (`.private`); it comes from the operator.
        if !prefix.iter().all(|part| is_plain(part.trim_start_matches('.')) && part != "..") {
            return Err(ObjectsError::Address("its prefix has a part that is not plain"));
        }
        let bad = |_| ObjectsError::Address("its base is not http or https");
        let CloudSettings { base, token, limits } = settings;
        let own = |url: &str| Url::parse(url).map_err(|_| ObjectsError::Address("its base is not a URL"));
        let metadata = own(METADATA)?;
        let mut guard = Guard::new().allow(&metadata).map_err(bad)?;
        let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&bucket);
        if let Some(base) = &base {
            guard = guard.allow(base).map_err(bad)?;
            builder = builder.with_base_url(base.as_str().trim_end_matches('/'));
        }
        if let Some(token) = token {
            let token = GcpCredential { bearer: token.into_exposed() };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(token)));
        }
        let http = Http::new(guard);
        let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let builder = builder.with_http_connector(Adapter { http: http.clone(), limits }).with_retry(once);
        let store = Arc::new(builder.build().map_err(|_| ObjectsError::Configuration)?);
        Ok(Self { store, http, base: base.map_or_else(|| own(URL), Ok)?, bucket, prefix, limits })
    }

    pub(super) async fn put_new<E: Into<PutSource>>(
        &self,
        key: &ObjectKey,
        bytes_max: u64,
        stream: impl Stream<Item = Result<Bytes, E>> + Send,
    ) -> Result<Put, ObjectsError> {
        // First all of it onto this disk: a stream that breaks must not leave
        // half an object, and its length is told before it is sent.
        let mut file = tokio::fs::File::from_std(tempfile::tempfile()?);
        let content = spool(&mut file, bytes_max, stream).await?;
        file.seek(SeekFrom::Start(0)).await?;
        if self.upload(key, content, file).await? {
            return Ok(Put::Created(content));
        }
        let found_bytes = self.head(key).await?.ok_or(ObjectsError::Upstream)?;
        Ok(Put::AlreadyThere { offered: content, found_bytes })
    }

    pub(super) async fn head(&self, key: &ObjectKey) -> Result<Option<u64>, ObjectsError> {
        match self.store.head(&self.path(key)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    pub(super) async fn get(&self, key: &ObjectKey) -> Result<Option<Object>, ObjectsError> {
        match self.store.get(&self.path(key)).await {
            Ok(found) => {
                let bytes = found.meta.size;
                Ok(Some(Object { bytes, stream: found.into_stream().map_err(std::io::Error::other).boxed() }))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Sends a file as an object; `false` when one of that name is there.
    async fn upload(
        &self,
        key: &ObjectKey,
        content: Content,
        file: tokio::fs::File,
    ) -> Result<bool, ObjectsError> {
        let mut url = self.base.clone();
        let unfit = |()| ObjectsError::Address("its base cannot have a path");
        let key = key.below(&self.prefix);
        url.path_segments_mut().map_err(unfit)?.pop_if_empty().push(&self.bucket).extend(key.parts());
        let token = self.store.credentials().get_credential().await.map_err(|error| failure(&error))?;
        let refused = |no| ObjectsError::Store(HttpError::Refused(no));
        let credentials = Credentials::header(&url, &format!("Bearer {}", token.bearer)).map_err(refused)?;
        let body = Body::stream(content.bytes, pieces(file));
        let request = Request::new(Method::PUT, url, body).limits(self.limits).credentials(credentials);
        let request = request.header(CONTENT_TYPE, "application/octet-stream").map_err(refused)?;
        let only_new = HeaderName::from_static("x-goog-if-generation-match");
        let request = request.header(only_new, "0").map_err(refused)?;
        let answer = self.http.send(request).await.map_err(ObjectsError::Store)?;
        match answer.status() {
            412 => Ok(false),
            401 | 403 => Err(ObjectsError::Configuration),
            _ => answer.ok().map(|_| true).map_err(ObjectsError::Store),
        }
    }

    fn path(&self, key: &ObjectKey) -> Path {
        Path::from_iter(key.below(&self.prefix).parts().iter().map(String::as_str))
    }
}

fn failure(error: &object_store::Error) -> ObjectsError {
    match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            ObjectsError::Configuration
        }
        other => cause(other).map_or(ObjectsError::Upstream, ObjectsError::Store),
    }
}
