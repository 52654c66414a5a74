//! Objects in a bucket of Google Cloud Storage, or in a folder.
//!
//! An object is written once: putting one that is there already changes
//! nothing. What is put is a stream that is never held in memory, and no
//! object is ever seen half: a stream that breaks leaves nothing behind.

mod adapter;
mod cloud;
mod folder;
mod key;
mod spool;

use std::{fmt, io};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use url::Url;

pub use cloud::CloudSettings;
pub use key::ObjectKey;
pub use spool::Content;

use crate::safe_http::HttpError;
use cloud::Cloud;
use folder::Folder;

/// The folder below a prefix with which the names of notes begin.
const AUDIO: &str = "audio";

/// Why an object could not be written or read. No text names the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectsError {
    /// The address of the store cannot be used.
    #[error(
        "the address of the object store cannot be used: {0}; write gs://bucket/prefix or file:///folder"
    )]
    Address(&'static str),
    /// A name that is not made of plain ids.
    #[error("the object's name has a part that is not a plain id")]
    Key,
    /// What was to be put is larger than its limit. Nothing was put.
    #[error("the object is larger than {bytes_max} bytes; nothing was put")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// What was to be put could not be read to its end. Nothing was put.
    #[error("what was to be put could not be read: {0}")]
    Source(HttpError),
    /// The disk failed.
    #[error("the folder cannot be used: {0}; check that it is there, writable and not full")]
    Disk(io::ErrorKind),
    /// The store does not accept our credentials.
    #[error(
        "the object store does not accept the credentials; check the account and its rights on the bucket"
    )]
    Configuration,
    /// There is nothing to show to the store: neither a key file nor a machine that vouches for us.
    #[error(
        "no credentials for the object store were found; set GOOGLE_APPLICATION_CREDENTIALS to a key file, or use a folder"
    )]
    NoCredentials,
    /// The credentials that the environment names cannot be read.
    #[error(
        "the credentials for the object store cannot be read; check that GOOGLE_APPLICATION_CREDENTIALS names a key file \
         that is there and whole"
    )]
    BadCredentials,
    /// There is no such bucket.
    #[error("the object store has no such bucket; check its name")]
    NoBucket,
    /// The store could not be reached, or did not do what it was asked to.
    #[error("the object store failed: {0}")]
    Store(HttpError),
    /// The store answered in a way that is not understood.
    #[error("the object store answered in an unexpected way; ask again later")]
    Upstream,
}

impl ObjectsError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Key => "key",
            Self::TooLarge { .. } => "too_large",
            Self::Source(_) => "source",
            Self::Disk(_) => "disk",
            Self::Configuration => "configuration",
            Self::NoCredentials => "no_credentials",
            Self::BadCredentials => "bad_credentials",
            Self::NoBucket => "no_such_bucket",
            Self::Store(_) => "store",
            Self::Upstream => "upstream",
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Disk(_) | Self::Upstream => true,
            Self::Source(error) | Self::Store(error) => error.is_transient(),
            Self::Address(_)
            | Self::Key
            | Self::TooLarge { .. }
            | Self::Configuration
            | Self::NoCredentials
            | Self::BadCredentials
            | Self::NoBucket => false,
        }
    }
}

impl From<io::Error> for ObjectsError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error.kind())
    }
}

/// What became of putting an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It was put, and is on disk.
    Created(Content),
    /// One was there before; it was left as it is.
    AlreadyThere {
        /// What was offered.
        offered: Content,
        /// The length of the one that is there.
        found_bytes: u64,
    },
}

/// An object that is being read.
pub struct Object {
    /// Its length.
    pub bytes: u64,
    /// Its content.
    pub stream: BoxStream<'static, io::Result<Bytes>>,
}

/// A store of objects.
#[derive(Clone)]
pub struct Objects {
    place: Place,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place {
            Place::Folder(_) => "Objects(in a folder)",
            Place::Cloud(_) => "Objects(in a bucket)",
        })
    }
}

#[derive(Clone)]
enum Place {
    Folder(Folder),
    Cloud(Box<Cloud>),
}

impl Objects {
    /// Opens the store at `gs://bucket/prefix` or `file:///folder`. A folder
    /// is made when it is missing; a bucket is not asked before it is used.
    pub fn open(address: &str, cloud: CloudSettings) -> Result<Self, ObjectsError> {
        let url = Url::parse(address).map_err(|_| ObjectsError::Address("it is not a URL"))?;
        let place = match url.scheme() {
            "file" => {
                let path = url
                    .to_file_path()
                    .map_err(|()| ObjectsError::Address("it is no path of this machine"))?;
                Place::Folder(Folder::open(path)?)
            }
            "gs" => Place::Cloud(Box::new(Cloud::open(&url, cloud)?)),
            _ => return Err(ObjectsError::Address("its scheme is not known")),
        };
        Ok(Self { place })
    }

    /// Puts an object, if none of that name is there. Success means that it is durable.
    pub async fn put_new<E: Into<PutSource>>(
        &self,
        key: &ObjectKey,
        bytes_max: u64,
        content: impl Stream<Item = Result<Bytes, E>> + Send,
    ) -> Result<Put, ObjectsError> {
        match &self.place {
            Place::Folder(folder) => folder.put_new(key, bytes_max, content).await,
            Place::Cloud(cloud) => cloud.put_new(key, bytes_max, content).await,
        }
    }

    /// Whether the store can be used, as far as a question that costs nothing can tell: only a refusal that
    /// leaves no doubt is an error.
    pub async fn probe(&self) -> Result<(), ObjectsError> {
        match &self.place {
            // A folder was opened, which says it all.
            Place::Folder(_) => Ok(()),
            Place::Cloud(cloud) => cloud.probe().await,
        }
    }

    /// The whole name of an object: in a bucket with the prefix of this store before it.
    pub fn whole(&self, key: &ObjectKey) -> String {
        match &self.place {
            Place::Folder(_) => key.path(),
            Place::Cloud(cloud) => cloud.whole(key),
        }
    }

    /// Opens an object by its whole name, whoever gave it that; `None` when it is not there. A name without
    /// the prefix, or with the bucket before it, is understood.
    pub async fn get_whole(&self, name: &str) -> Result<Option<Object>, ObjectsError> {
        match &self.place {
            Place::Folder(folder) => folder.get_whole(name).await,
            Place::Cloud(cloud) => cloud.get_whole(name).await,
        }
    }

    /// The length of an object; `None` when it is not there.
    pub async fn head(&self, key: &ObjectKey) -> Result<Option<u64>, ObjectsError> {
        match &self.place {
            Place::Folder(folder) => folder.head(key).await,
            Place::Cloud(cloud) => cloud.head(key).await,
        }
    }

    /// Opens an object for reading; `None` when it is not there.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Object>, ObjectsError> {
        match &self.place {
            Place::Folder(folder) => folder.get(key).await,
            Place::Cloud(cloud) => cloud.get(key).await,
        }
    }
}

/// Why the content of an object could not be read while it was put.
pub struct PutSource(ObjectsError);

impl From<HttpError> for PutSource {
    fn from(error: HttpError) -> Self {
        Self(match error {
            HttpError::TooLarge { bytes_max, .. } => ObjectsError::TooLarge { bytes_max },
            error => ObjectsError::Source(error),
        })
    }
}

impl From<io::Error> for PutSource {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}
