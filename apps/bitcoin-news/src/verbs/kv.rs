//! `kv get` and `kv publish`.

use std::sync::Arc;

use clap::Subcommand;
use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Host, say};

use crate::app::Place;
use crate::documents;
use crate::jobs;
use crate::publish::{PublishError, PublishReport, Publisher};
use crate::sources;

/// What can be done with the documents.
#[derive(Debug, Subcommand)]
pub enum KvVerb {
    /// Print a document: BTC_PENDING_LIST, BTC_CHECKPOINT, BTC_ID_INDEX or article:ID
    Get {
        /// Its key
        key: String,
    },
    /// Publish now what has changed
    Publish,
}

pub async fn run(host: &Host, place: &Place, verb: KvVerb) -> Result<Exit, AppError> {
    let (settings, archive) = super::archive(host, place).await?;
    match verb {
        KvVerb::Get { key } => match documents::get(&archive, &key).await? {
            Some(document) => print_json(&document)?,
            None => {
                eprintln!(
                    "{}: there is no such key; there are BTC_PENDING_LIST, BTC_CHECKPOINT, BTC_ID_INDEX and article:ID",
                    plain(&key)
                );
                return Ok(Exit::NOT_FOUND);
            }
        },
        KvVerb::Publish => {
            let Some(kv) = &settings.kv else {
                return Err("CLOUDFLARE_KV_NAMESPACE_ID is not set, so nothing is published; set it".into());
            };
            jobs::prepare(&**archive.client.store(), &settings).await?;
            let kv = sources::kv(kv)?;
            let publisher = Arc::new(Publisher { archive, kv, writes_per_day: settings.kv_writes_per_day });
            let report = publisher.run().await.map_err(|error| match error {
                PublishError::Store(failure) => failure.into_error(),
                PublishError::Kv(error) => error.into(),
            })?;
            let PublishReport { written, deleted, left } = &report;
            match host.json {
                true => print_json(&report)?,
                false => say!("{written} keys written, {deleted} deleted, {left} left for later"),
            }
        }
    }
    Ok(Exit::DONE)
}
