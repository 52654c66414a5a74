//! What was there before: the four documents, and the one of the version before them, become records. What was
//! processed is not processed again.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use windlass_engine::ShelfError;
use windlass_outside::news::{document, document_id};
use windlass_outside::workers_kv::{CloudflareError, WorkersKv};

use crate::archive::Archive;
use crate::article::{Article, State, Step};
use crate::documents::{ARTICLE, CHECKPOINT, INDEX, PENDING};
use crate::jobs::Work;
use crate::reason::Reason;

/// The document of the version before.
pub const ANALYZED: &str = "BTC_ANALYZED_NEWS";

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Articles by id, with whether they were processed.
    articles: BTreeMap<String, (Value, bool)>,
    /// Ids that were processed.
    processed: BTreeSet<String>,
    /// Ids that were seen.
    seen: BTreeSet<String>,
    /// Ids that are tried later, with the reason.
    later: BTreeMap<String, String>,
    /// How many things could not be read.
    unreadable: u64,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Imported {
    /// Articles that were finished, and stay so.
    pub finished: u64,
    /// Articles that are worked on from where they were.
    pub unfinished: u64,
    /// Ids without an article: remembered, so that they do not come again.
    pub remembered: u64,
    /// Articles that were there already; they were left as they are.
    pub known: u64,
    /// Things that could not be read, and were left out.
    pub unreadable: u64,
}

/// Why an import could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store.
    #[error(transparent)]
    Store(#[from] ShelfError),
    /// Workers KV.
    #[error(transparent)]
    Kv(#[from] CloudflareError),
    /// A value there is no JSON.
    #[error("{0} in Workers KV is not JSON; delete it there, or import from files")]
    NotJson(String),
}

impl Found {
    /// Takes a document: by its key, or by its form where the key says nothing. Answers whether it was any.
    pub fn take(&mut self, key: &str, value: &Value) -> bool {
        match key {
            PENDING => self.pending(value),
            CHECKPOINT => self.checkpoint(value),
            INDEX => self.index(value),
            ANALYZED => self.analyzed(value),
            key if key.starts_with(ARTICLE) => self.article(value, None),
            _ => return self.by_form(value),
        }
        true
    }

    fn by_form(&mut self, value: &Value) -> bool {
        let keys = [PENDING, CHECKPOINT, INDEX, ANALYZED];
        let is_dump = |name: &str| keys.contains(&name) || name.starts_with(ARTICLE);
        match value {
            Value::Object(members) if members.keys().any(|name| is_dump(name)) => {
                members.iter().filter(|(name, _)| is_dump(name)).for_each(|(name, value)| {
                    self.take(name, value);
                });
            }
            Value::Object(members) if members.contains_key("processedIds") => self.checkpoint(value),
            Value::Object(members) if members.contains_key("articles") => self.analyzed(value),
            Value::Object(members) if members.contains_key("title") => self.article(value, None),
            Value::Array(list) if list.iter().any(|one| one["article"].is_object()) => self.pending(value),
            Value::Array(list) if list.iter().all(|one| one.is_string() || one.is_number()) => {
                self.index(value)
            }
            Value::Array(list) if list.iter().any(|one| one["title"].is_string()) => self.analyzed(value),
            _ => return false,
        }
        true
    }

    fn pending(&mut self, value: &Value) {
        for one in value.as_array().into_iter().flatten() {
            self.article(&one["article"], Some(&one["id"]));
        }
    }

    fn checkpoint(&mut self, value: &Value) {
        for id in value["processedIds"].as_array().into_iter().flatten() {
            match document_id(id) {
                Some(id) => drop(self.processed.insert(id)),
                None => self.unreadable += 1,
            }
        }
        for one in value["tryLater"].as_array().into_iter().flatten() {
            if let Some(id) = self.article_id(&one["article"], Some(&one["id"])) {
                let reason = one["reason"].as_str().unwrap_or("try_later").to_owned();
                self.later.insert(id, reason);
            }
            self.article(&one["article"], Some(&one["id"]));
        }
        if value["currentArticle"].is_object() {
            self.article(&value["currentArticle"], Some(&value["currentArticleId"]));
        }
    }

    fn index(&mut self, value: &Value) {
        for id in value.as_array().into_iter().flatten() {
            match document_id(id) {
                Some(id) => drop(self.seen.insert(id)),
                None => self.unreadable += 1,
            }
        }
    }

    /// The version before had whole articles in one document, all of them as far as they would ever come.
    fn analyzed(&mut self, value: &Value) {
        let list = value.as_array().or_else(|| value["articles"].as_array());
        for one in list.into_iter().flatten() {
            self.article(one, None);
        }
    }

    fn article(&mut self, value: &Value, id: Option<&Value>) {
        let Some(id) = self.article_id(value, id) else {
            self.unreadable += 1;
            return;
        };
        // A document of its own is newer than a copy in a list, and a finished one newer than an unfinished one.
        let is_done = !needs(value, "needsSentiment") && !needs(value, "needsSummary");
        let is_better = self.articles.get(&id).is_none_or(|(_, was_done)| is_done || !was_done);
        if is_better {
            self.articles.insert(id, (value.clone(), is_done));
        }
    }

    fn article_id(&self, value: &Value, id: Option<&Value>) -> Option<String> {
        let own = || [&value["article_id"], &value["id"], &value["link"]].into_iter().find_map(document_id);
        id.and_then(document_id).or_else(own)
    }

    /// Reads everything from a namespace of Workers KV.
    pub async fn of_kv(kv: &WorkersKv) -> Result<Self, ImportError> {
        let mut found = Self::default();
        for key in [PENDING, CHECKPOINT, INDEX, ANALYZED] {
            if let Some(value) = read(kv, key).await? {
                found.take(key, &value);
            }
        }
        // Names as they stand there: an id of before is part of its key.
        let ids: Vec<String> = match read(kv, INDEX).await? {
            Some(Value::Array(ids)) => ids.iter().filter_map(plain).collect(),
            _ => Vec::new(),
        };
        for id in ids {
            let key = format!("{ARTICLE}{id}");
            if let Some(value) = read(kv, &key).await? {
                found.take(&key, &value);
            }
        }
        Ok(found)
    }

    /// Makes records of it. What is there already is left as it is, so an import can be repeated.
    pub async fn store(self, archive: &Archive) -> Result<Imported, ImportError> {
        let now_ms = archive.client.store().now().await.map_err(ShelfError::from)?.ms();
        let mut done = Imported { unreadable: self.unreadable, ..Imported::default() };
        for (id, (value, _)) in &self.articles {
            let Some((article, text)) = self.made(id, value, now_ms) else {
                done.unreadable += 1;
                continue;
            };
            let is_over = article.state.is_over();
            let mut batch = archive.client.batch();
            archive.put(&mut batch, &article).if_absent();
            archive.put_seen(&mut batch, article.id(), now_ms);
            if let Some(text) = text.filter(|_| !is_over) {
                archive.put_text(&mut batch, article.id(), &text);
            }
            if !is_over {
                batch.enqueue(Work::of(&article, now_ms));
            }
            match batch.commit().await {
                Ok(_) if is_over => done.finished += 1,
                Ok(_) => done.unfinished += 1,
                Err(ShelfError::Conflict { .. }) => done.known += 1,
                Err(error) => return Err(error.into()),
            }
        }
        let bare = self.seen.union(&self.processed).filter(|id| !self.articles.contains_key(*id));
        for ids in bare.collect::<Vec<_>>().chunks(500) {
            let mut batch = archive.client.batch();
            for id in ids {
                archive.put_seen(&mut batch, id, now_ms);
            }
            batch.commit().await?;
            done.remembered += ids.len() as u64;
        }
        Ok(done)
    }

    /// The record of an article, and the text of its page where that was kept.
    fn made(&self, id: &str, value: &Value, now_ms: i64) -> Option<(Article, Option<String>)> {
        let mut news = document(value)?;
        id.clone_into(&mut news.id);
        let known = news.sentiment.take();
        let queued_ms = value["queuedAt"].as_i64().unwrap_or(now_ms);
        let mut article = Article::new(news, queued_ms);
        article.processed_ms = value["processedAt"].as_i64();
        article.changed_ms = article.processed_ms.unwrap_or(queued_ms);
        let is_processed = self.processed.contains(id) && !self.later.contains_key(id);
        let why = || Reason::imported(value["summaryError"].as_str().unwrap_or("no value"));
        let needs = |name: &str| needs(value, name) && !is_processed;
        article.sentiment = match known {
            Some(value) => Step::Done { value, attempts: 0 },
            None if needs("needsSentiment") => Step::open(),
            None => Step::Empty { reason: why(), attempts: 0 },
        };
        let text =
            value["extractedContent"].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let summary = value["aiSummary"].as_str().filter(|text| !text.is_empty());
        match summary {
            Some(text) => {
                article.summary = Step::Done { value: text.to_owned(), attempts: 0 };
                article.content = Step::Done { value: (), attempts: 0 };
            }
            None if needs("needsSummary") && text.is_some() => {
                article.content = Step::Done { value: (), attempts: 0 };
            }
            None if needs("needsSummary") => {}
            None => {
                article.content = Step::Empty { reason: why(), attempts: 0 };
                article.summary = Step::Empty { reason: why(), attempts: 0 };
            }
        }
        let is_open = article.sentiment.is_open() || article.content.is_open() || article.summary.is_open();
        article.state = match (is_open, self.later.get(id)) {
            (true, Some(_)) => State::Later { since_ms: now_ms },
            (true, None) => State::Pending,
            (false, _) => State::Done { at_ms: article.processed_ms.unwrap_or(now_ms) },
        };
        if let (State::Later { .. }, Some(why)) = (&article.state, self.later.get(id)) {
            let reason = Some(Reason::imported(why));
            if let Step::Open { reason: old, .. } = &mut article.summary {
                *old = reason;
            }
            article.round = 1;
        }
        Some((article, text))
    }
}

/// A flag that is not there counts as yes, as it always did; but not where the value is there.
fn needs(value: &Value, name: &str) -> bool {
    let has = |name: &str| value[name].as_str().is_some_and(|text| !text.is_empty());
    match name {
        "needsSentiment" => value[name].as_bool().unwrap_or(!has("sentiment")),
        _ => value[name].as_bool().unwrap_or(!has("aiSummary")),
    }
}

fn plain(id: &Value) -> Option<String> {
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

async fn read(kv: &WorkersKv, key: &str) -> Result<Option<Value>, ImportError> {
    match kv.get(key).await? {
        None => Ok(None),
        Some(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|_| ImportError::NotJson(key.to_owned()))
        }
    }
}
