//! Opening a store by its URL.

use std::sync::Arc;

use windlass_engine::{Store, StoreError};

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no kind of store.
    #[error("{0:?} is not the URL of a store; write {known}", known = known())]
    Unknown(String),
    /// This program was built without that kind of store.
    #[error(
        "this program was built without the feature {feature:?} of windlass, which this kind of store needs; \
         add it in Cargo.toml: windlass = {{ features = [{feature:?}] }}"
    )]
    NotBuilt {
        /// The feature that is missing.
        feature: &'static str,
    },
    /// There is nothing yet, and whoever only looks makes nothing.
    #[error("there is no store {url} yet")]
    Missing {
        /// The URL, without its password.
        url: String,
    },
    /// The store said no.
    #[error("cannot open the store {url}")]
    Store {
        /// The URL, without its password.
        url: String,
        /// Why.
        #[source]
        error: StoreError,
    },
}

/// Opens the store of a URL, makes it when it is not there, and brings its
/// schema up to date.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `sqlite:FILE` | one file | `sqlite` |
/// | `postgres://USER@HOST/DATABASE` | Postgres, for many machines | `postgres` |
/// | `mongodb://HOST/DATABASE?replicaSet=NAME` | a replica set of MongoDB | `mongo` |
/// | `json:FILE` | one file that people can read | `json` |
/// | `http://HOST:PORT`, `https://…` | a Windlass server; its token is read from `WINDLASS_TOKEN` | `remote` |
///
/// After a file, `?pause_max=5m` bounds how long a new epoch of the store holds back jobs that somebody may still hold
/// by what was lost: 15 minutes unless it is said.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    match url.split_once(':') {
        Some(("sqlite", path)) => sqlite(url, path).await,
        Some(("json", path)) => json(url, path).await,
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => postgres(url).await,
        Some(("mongodb" | "mongodb+srv", rest)) if rest.starts_with("//") => mongo(url).await,
        Some(("http" | "https", rest)) if rest.starts_with("//") => remote(url).await,
        _ => Err(OpenError::Unknown(without_password(url))),
    }
}

/// Opens the store of a URL only if it is there: for whoever only looks.
pub async fn open_existing(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    let missing = || OpenError::Missing { url: without_password(url) };
    match url.split_once(':') {
        Some(("sqlite" | "json", path)) if !std::path::Path::new(split_pause(path).0).exists() => {
            Err(missing())
        }
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") && !is_there(url).await? => {
            Err(missing())
        }
        Some(("mongodb" | "mongodb+srv", rest)) if rest.starts_with("//") && !is_in_mongo(url).await? => {
            Err(missing())
        }
        _ => open(url).await,
    }
}

/// Refuses what [`open`] would refuse of a URL before it asks anybody: a kind of store that nobody knows or that is not
/// built, a word behind a file or a parameter that is none. Nothing is made, and no server is asked. Needs a runtime, as
/// [`open`] does.
pub async fn check_url(url: &str) -> Result<(), OpenError> {
    match url.split_once(':') {
        Some(("sqlite", path)) => {
            built(cfg!(feature = "sqlite"), "sqlite").and_then(|()| checked_file(url, path))
        }
        Some(("json", path)) => built(cfg!(feature = "json"), "json").and_then(|()| checked_file(url, path)),
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            built(cfg!(feature = "postgres"), "postgres").and_then(|()| checked_postgres(url))
        }
        Some(("mongodb" | "mongodb+srv", rest)) if rest.starts_with("//") => {
            built(cfg!(feature = "mongo"), "mongo")
        }
        Some(("http" | "https", rest)) if rest.starts_with("//") => built(cfg!(feature = "remote"), "remote"),
        _ => Err(OpenError::Unknown(without_password(url))),
    }
}

fn built(is_built: bool, feature: &'static str) -> Result<(), OpenError> {
    if is_built { Ok(()) } else { Err(OpenError::NotBuilt { feature }) }
}

#[cfg(any(feature = "sqlite", feature = "json"))]
fn checked_file(url: &str, path: &str) -> Result<(), OpenError> {
    pause_ms_max(path).map(drop).map_err(|error| OpenError::Store { url: url.to_owned(), error })
}

#[cfg(not(any(feature = "sqlite", feature = "json")))]
fn checked_file(_: &str, _: &str) -> Result<(), OpenError> {
    Ok(())
}

#[cfg(feature = "postgres")]
fn checked_postgres(url: &str) -> Result<(), OpenError> {
    // A pool connects when it is first asked.
    let pool = windlass_postgres::pool_of(url, &windlass_postgres::Options::default());
    pool.map(drop).map_err(|error| OpenError::Store { url: without_password(url), error })
}

#[cfg(not(feature = "postgres"))]
fn checked_postgres(_: &str) -> Result<(), OpenError> {
    Ok(())
}

#[cfg(feature = "mongo")]
async fn is_in_mongo(url: &str) -> Result<bool, OpenError> {
    let there = windlass_mongo::MongoStore::is_there(url).await;
    there.map_err(|error| OpenError::Store { url: without_password(url), error })
}

#[cfg(not(feature = "mongo"))]
async fn is_in_mongo(_: &str) -> Result<bool, OpenError> {
    Ok(true)
}

#[cfg(feature = "postgres")]
async fn is_there(url: &str) -> Result<bool, OpenError> {
    let there = windlass_postgres::PostgresStore::is_there(url).await;
    there.map_err(|error| OpenError::Store { url: without_password(url), error })
}

#[cfg(not(feature = "postgres"))]
async fn is_there(_: &str) -> Result<bool, OpenError> {
    Ok(true)
}

macro_rules! opened_by {
    ($(#[cfg(feature = $feature:literal)] fn $name:ident($url:ident $(, $path:ident)?) $open:expr;)*) => {$(
        #[cfg(feature = $feature)]
        async fn $name($url: &str $(, $path: &str)?) -> Result<Arc<dyn Store>, OpenError> {
            let opened = $open.await;
            let store = opened.map_err(|error| OpenError::Store { url: without_password($url), error })?;
            Ok(store)
        }

        #[cfg(not(feature = $feature))]
        async fn $name(_: &str $(, $path: &str)?) -> Result<Arc<dyn Store>, OpenError> {
            $(let _ = $path;)?
            Err(OpenError::NotBuilt { feature: $feature })
        }
    )*};
}

opened_by! {
    #[cfg(feature = "sqlite")]
    fn sqlite(url, path) async {
        let (path, pause_ms_max) = (split_pause(path).0, pause_ms_max(path)?);
        let options = windlass_sqlite::Options { pause_ms_max, ..windlass_sqlite::Options::default() };
        windlass_sqlite::SqliteStore::open_with(path, options).await
    };
    #[cfg(feature = "json")]
    fn json(url, path) async {
        let (path, pause_ms_max) = (split_pause(path).0, pause_ms_max(path)?);
        let clock = Arc::new(windlass_engine::world::RealWorld::new());
        let options = windlass_json::Options { pause_ms_max, ..windlass_json::Options::new(clock) };
        windlass_json::JsonStore::open_with(path, options).await
    };
    #[cfg(feature = "postgres")]
    fn postgres(url) windlass_postgres::PostgresStore::connect(url);
    #[cfg(feature = "mongo")]
    fn mongo(url) windlass_mongo::MongoStore::connect(url);
    #[cfg(feature = "remote")]
    fn remote(url) windlass_remote::RemoteStore::connect(url, windlass_remote::Options {
        token: std::env::var("WINDLASS_TOKEN").ok().filter(|token| !token.is_empty()),
        ..windlass_remote::Options::default()
    });
}

/// The path of a file, and what follows it: the longest that an epoch holds back anything.
fn split_pause(path: &str) -> (&str, Option<&str>) {
    path.rsplit_once("?pause_max=").map_or((path, None), |(path, span)| (path, Some(span)))
}

#[cfg(any(feature = "sqlite", feature = "json"))]
fn pause_ms_max(path: &str) -> Result<Option<u32>, StoreError> {
    use windlass_engine::core::error::Invalid;
    use windlass_engine::core::time::Span;
    let refuse = |why: String| Invalid::new("url", format!("has a pause_max= that {why}"));
    let Some(text) = split_pause(path).1 else { return Ok(None) };
    let span: Span = text.parse().map_err(|why| refuse(format!("{why}")))?;
    Ok(Some(u32::try_from(span.ms()).map_err(|_| refuse("is many days long".to_owned()))?))
}

fn known() -> String {
    let kinds = [
        (cfg!(feature = "sqlite"), "sqlite:FILE"),
        (cfg!(feature = "postgres"), "postgres://USER@HOST/DATABASE"),
        (cfg!(feature = "mongo"), "mongodb://HOST/DATABASE?replicaSet=NAME"),
        (cfg!(feature = "json"), "json:FILE"),
        (cfg!(feature = "remote"), "http://HOST:PORT"),
    ];
    let known: Vec<&str> = kinds.into_iter().filter_map(|(built, form)| built.then_some(form)).collect();
    known.join(" or ")
}

/// A URL as it may be shown.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some(at) = rest[..authority_end].rfind('@') else { return url.to_owned() };
    let user = rest[..at].split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{}", &rest[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("postgres://me:secret@host:5432/db?x=1", "postgres://me@host:5432/db?x=1"),
            ("postgres://me:se@cret@host/db", "postgres://me@host/db"),
            ("postgres://host/db", "postgres://host/db"),
            ("sqlite:a@b.db", "sqlite:a@b.db"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_path_may_say_how_long_an_epoch_pauses() {
        assert_eq!(split_pause("a.db"), ("a.db", None));
        assert_eq!(split_pause("a?b.db?pause_max=5m"), ("a?b.db", Some("5m")));
        assert_eq!(pause_ms_max("a.db?pause_max=5m").expect("a span"), Some(300_000));
        assert_eq!(pause_ms_max("a.db?pause_max=0s").expect("a span"), Some(0));
        assert!(pause_ms_max("a.db?pause_max=long").is_err() && pause_ms_max("a.db?pause_max=90d").is_err());
    }

    #[tokio::test]
    async fn an_unknown_url_says_what_would_be_known() {
        let error = open("mysql://me:secret@host/db").await.err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains("mysql://me@host/db") && error.contains("sqlite:FILE"), "{error}");
    }

    #[cfg(all(feature = "sqlite", feature = "postgres"))]
    #[tokio::test]
    async fn a_url_is_checked_without_asking_anybody() {
        for (url, wrong) in [
            ("sqlite:x.db", ""),
            ("sqlite:x.db?pause_max=5m", ""),
            ("sqlite:x.db?pause_max=long", "pause_max"),
            ("postgres://me@127.0.0.1:1/db?sslmode=disable", ""),
            ("postgres://me@127.0.0.1:1/db?colour=blue", "colour"),
            ("mysql://host/db", "not the URL of a store"),
        ] {
            let said = check_url(url).await.err();
            let said = said.map(|error| {
                use std::error::Error as _;
                format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
            });
            assert_eq!(said.is_some(), !wrong.is_empty(), "{url}: {said:?}");
            assert!(said.unwrap_or_default().contains(wrong), "{url}");
        }
        assert!(!std::path::Path::new("x.db").exists());
    }

    #[cfg(not(feature = "mongo"))]
    #[tokio::test]
    async fn a_store_that_is_not_built_names_its_feature() {
        assert!(matches!(
            check_url("mongodb://host/db").await,
            Err(OpenError::NotBuilt { feature: "mongo" })
        ));
        let error = open("mongodb://me:secret@host/db").await.err().map(|error| error.to_string());
        assert!(error.unwrap_or_default().contains("features = [\"mongo\"]"));
    }
}
