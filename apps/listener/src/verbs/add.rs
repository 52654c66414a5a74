//! `add`: a new listener.

use clap::Args;
use mongodb::bson::{Bson, Document, doc};
use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, say};

use super::refused;
use crate::event::id_text;
use crate::home::Home;
use crate::office::{self, OfficeError, as_document, as_json};

/// A listener, as it is said.
#[derive(Debug, Args)]
pub(crate) struct NewListener {
    /// The collection that is watched
    #[arg(long, required_unless_present = "json_document")]
    collection: Option<String>,
    /// The name of the job that a change makes
    #[arg(long, required_unless_present = "json_document")]
    job: Option<String>,
    /// One database
    #[arg(long, conflicts_with = "prefix")]
    database: Option<String>,
    /// All databases whose names begin so; workspace_ when nothing is said
    #[arg(long)]
    prefix: Option<String>,
    /// What counts: insert, update, replace, delete; insert and update when nothing is said
    #[arg(long, value_delimiter = ',')]
    on: Vec<String>,
    /// What documents must be like, as JSON
    #[arg(long)]
    filter: Option<String>,
    /// Which paths the filter names: document or event
    #[arg(long)]
    dialect: Option<String>,
    /// What every job carries, as JSON
    #[arg(long)]
    metadata: Option<String>,
    /// The field for the status; metadata.listener when nothing is said
    #[arg(long, conflicts_with = "no_status")]
    status_field: Option<String>,
    /// Write no status
    #[arg(long)]
    no_status: bool,
    /// change or document
    #[arg(long)]
    once: Option<String>,
    /// small or full
    #[arg(long)]
    payload: Option<String>,
    /// skip or catch-up
    #[arg(long)]
    on_resume: Option<String>,
    /// level or edge
    #[arg(long)]
    trigger: Option<String>,
    /// Make jobs of what is there already, too
    #[arg(long)]
    backfill: bool,
    /// The collection keeps images from before, so that deletes can be matched
    #[arg(long)]
    pre_images: bool,
    /// Over how many owners it is split
    #[arg(long)]
    partitions: Option<u32>,
    /// How many of its jobs run at once
    #[arg(long)]
    concurrency: Option<u32>,
    /// Of its jobs; higher first
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i16>,
    /// With JOBS_TARGET=windlass: the queue of its jobs
    #[arg(long)]
    queue: Option<String>,
    /// With JOBS_TARGET=windlass: budgets that must allow its jobs
    #[arg(long, value_delimiter = ',')]
    budgets: Vec<String>,
    /// The whole document, as JSON, instead of all of this
    #[arg(long = "document", conflicts_with_all = ["collection", "job"])]
    json_document: Option<String>,
}

fn parsed(text: &str, what: &str) -> Result<Document, OfficeError> {
    let wrong = |why| OfficeError::Refused(vec![format!("{what} is no JSON: {why}")]);
    as_document(serde_json::from_str(text).map_err(wrong)?)
}

impl NewListener {
    fn document(self) -> Result<Document, OfficeError> {
        if let Some(text) = &self.json_document {
            return parsed(text, "--document");
        }
        let mut document = doc! {};
        let texts = [
            ("collection", self.collection),
            ("jobName", self.job),
            ("database", self.database),
            ("databasePrefix", self.prefix),
            ("dialect", self.dialect),
            ("statusField", self.status_field),
            ("once", self.once),
            ("payload", self.payload),
            ("onResume", self.on_resume),
            ("trigger", self.trigger),
            ("queue", self.queue),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                document.insert(name, text);
            }
        }
        if !self.on.is_empty() {
            document.insert("operationType", self.on);
        }
        if let Some(filter) = &self.filter {
            document.insert("filter", parsed(filter, "--filter")?);
        }
        if let Some(metadata) = &self.metadata {
            document.insert("metadata", parsed(metadata, "--metadata")?);
        }
        if self.no_status {
            document.insert("statusField", Bson::Null);
        }
        for (name, said) in [("backfill", self.backfill), ("preImages", self.pre_images)] {
            if said {
                document.insert(name, true);
            }
        }
        let numbers = [
            ("partitions", self.partitions.map(i64::from)),
            ("concurrency", self.concurrency.map(i64::from)),
            ("priority", self.priority.map(i64::from)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                document.insert(name, number);
            }
        }
        if !self.budgets.is_empty() {
            document.insert("budgets", self.budgets);
        }
        Ok(document)
    }
}

pub(crate) async fn run(host: &Host, home: &Home, new: NewListener) -> Result<Exit, AppError> {
    let made = match new.document() {
        Ok(document) => office::add(home, document).await,
        Err(why) => Err(why),
    };
    match made {
        Ok(made) if host.json => print_json(&as_json(made))?,
        Ok(made) => say!("{}", made.get("_id").map(id_text).unwrap_or_default()),
        Err(why) => return refused(why),
    }
    Ok(Exit::DONE)
}
