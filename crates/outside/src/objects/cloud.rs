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
use super::{AUDIO, Object, ObjectKey, ObjectsError, Put, PutSource};
use crate::pieces::pieces;
use crate::safe_http::{Body, Credentials, Guard, Http, HttpError, Limits, Request, Response};
use crate::secret::Secret;

/// Where Google's storage is.
const URL: &str = "https://storage.googleapis.com";
/// How much of an error's body is read: enough for its code.
const ERROR_BYTES_MAX: usize = 64 * 1024;
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
        let store = Arc::new(builder.build().map_err(|_| ObjectsError::BadCredentials)?);
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

    /// Asks for an object that is not there: what the store says to that tells whether the bucket is.
    pub(super) async fn probe(&self) -> Result<(), ObjectsError> {
        let key = ObjectKey::new(&[AUDIO, "probe"])?;
        let answer = self.send(Method::GET, &key, Body::empty(), None).await?;
        match answer.status() {
            401 => Err(ObjectsError::Configuration),
            404 if says_no_bucket(answer).await => Err(ObjectsError::NoBucket),
            // Whoever may only write is told nothing here, and may do all that is needed.
            _ => Ok(()),
        }
    }

    pub(super) fn whole(&self, key: &ObjectKey) -> String {
        key.below(&self.prefix).path()
    }

    pub(super) async fn get_whole(&self, name: &str) -> Result<Option<Object>, ObjectsError> {
        let whole = ObjectKey::whole(name)?;
        let first = whole.parts().first().map(String::as_str);
        let mut places = vec![whole.clone()];
        if first == Some(&self.bucket) && whole.parts().len() > 1 {
            places.push(whole.without(1));
        }
        if first == Some(AUDIO) && !self.prefix.is_empty() {
            // As this program once wrote it. Before the other: a store may refuse to say what is not there.
            places.insert(0, whole.below(&self.prefix));
        }
        for place in places {
            if let Some(object) = self.open_at(&path(&place)).await? {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    pub(super) async fn head(&self, key: &ObjectKey) -> Result<Option<u64>, ObjectsError> {
        self.token().await?;
        match self.store.head(&path(&key.below(&self.prefix))).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }

    pub(super) async fn get(&self, key: &ObjectKey) -> Result<Option<Object>, ObjectsError> {
        self.open_at(&path(&key.below(&self.prefix))).await
    }

    async fn open_at(&self, path: &Path) -> Result<Option<Object>, ObjectsError> {
        self.token().await?;
        match self.store.get(path).await {
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
        let body = Body::stream(content.bytes, pieces(file));
        let only_new = HeaderName::from_static("x-goog-if-generation-match");
        let answer = self.send(Method::PUT, key, body, Some((only_new, "0"))).await?;
        match answer.status() {
            412 => Ok(false),
            401 | 403 => Err(ObjectsError::Configuration),
            // An object that is put need not be there; its bucket must.
            404 => Err(ObjectsError::NoBucket),
            _ => answer.ok().map(|_| true).map_err(ObjectsError::Store),
        }
    }

    async fn send(
        &self,
        method: Method,
        key: &ObjectKey,
        body: Body,
        header: Option<(HeaderName, &str)>,
    ) -> Result<Response, ObjectsError> {
        let mut url = self.base.clone();
        let unfit = |()| ObjectsError::Address("its base cannot have a path");
        let key = key.below(&self.prefix);
        url.path_segments_mut().map_err(unfit)?.pop_if_empty().push(&self.bucket).extend(key.parts());
        let token = self.token().await?;
        let refused = |no| ObjectsError::Store(HttpError::Refused(no));
        let credentials = Credentials::header(&url, &format!("Bearer {}", token.bearer)).map_err(refused)?;
        let mut request = Request::new(method, url, body).limits(self.limits).credentials(credentials);
        request = request.header(CONTENT_TYPE, "application/octet-stream").map_err(refused)?;
        if let Some((name, value)) = header {
            request = request.header(name, value).map_err(refused)?;
        }
        self.http.send(request).await.map_err(ObjectsError::Store)
    }

    /// What proves who we are. The crate keeps it until it runs out.
    async fn token(&self) -> Result<Arc<GcpCredential>, ObjectsError> {
        self.store.credentials().get_credential().await.map_err(|error| unproved(&error))
    }
}

fn path(key: &ObjectKey) -> Path {
    Path::from_iter(key.parts().iter().map(String::as_str))
}

async fn says_no_bucket(mut answer: Response) -> bool {
    let mut said = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        said.extend_from_slice(&piece);
        if said.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&said).contains("<Code>NoSuchBucket</Code>")
}

/// Why there are no credentials. Google's own service for them may be away for a moment; a machine that
/// vouches for nobody (it is asked without TLS, and inside) will not begin to.
fn unproved(error: &object_store::Error) -> ObjectsError {
    match cause(error) {
        Some(HttpError::Refused(_)) => ObjectsError::NoCredentials,
        Some(
            HttpError::Timeout { origin, .. }
            | HttpError::Resolve { origin }
            | HttpError::Connect { origin, .. }
            | HttpError::Cut { origin },
        ) if origin.to_string().starts_with("http://") => ObjectsError::NoCredentials,
        Some(error) => ObjectsError::Store(error),
        None => ObjectsError::Configuration,
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
