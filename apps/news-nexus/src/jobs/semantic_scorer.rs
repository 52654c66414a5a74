//! Scores articles: which keyword a text is nearest to, by a sentence model.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_app::Stop;
use windlass_embed::{EmbedError, LoadError, Model};
use windlass_outside::workbook::{self, Limits, Sheet};

use super::Job;
use crate::child::{Work, memory_mib};
use crate::database::{Database, DatabaseError, Score, ScoreText};
use crate::files::write_whole;
use crate::report::{End, Report, Tally};

pub(crate) static JOB: Job =
    Job { name: "semantic-scorer", endpoint: "/semantic-scorer/start-job", run: start };

/// The workbook with the keywords.
pub(crate) const KEYWORDS_FILE: &str = "NewsNexusSemanticScorerKeywords.xlsx";
const RUNNING_FILE: &str = "isRunningStatus.txt";
const COMPLETED_FILE: &str = "lastRunCompleted.txt";
/// Where in the scorer's folder the sentence model is.
pub(crate) const MODEL_FOLDER: &str = "model";
/// The model that ratings are comparable with.
pub(crate) const MODEL_NAME: &str = "sentence-transformers/paraphrase-MiniLM-L6-v2";
/// Its files.
pub(crate) const MODEL_FILES: &str = "config.json, tokenizer.json and model.safetensors";
/// The name under which this program categorizes.
pub(crate) const CATEGORIZER: &str = "NewsNexusSemanticScorer02";
/// How many articles are scored and written together. A cancel waits for one batch.
const BATCH: usize = 100;

fn start(work: Work, _: Value) -> BoxFuture<'static, Report> {
    async move {
        match Run::prepare(work).await {
            Ok(run) => run.run().await,
            Err(message) => Report::failed(message),
        }
    }
    .boxed()
}

struct Run {
    work: Work,
    database: Database,
    categorizer: i64,
    model: Arc<Model>,
    keywords: Vec<Keyword>,
    articles: Vec<i64>,
    tally: Tally,
}

struct Keyword {
    text: String,
    vector: Vec<f32>,
}

impl Run {
    async fn prepare(work: Work) -> Result<Self, String> {
        let folder = work.settings.scorer_folder.clone();
        let text = |error: DatabaseError| error.to_string();
        let keywords = keywords(&folder.join(KEYWORDS_FILE))?;
        let database = Database::open(&work.settings.database).map_err(text)?;
        let categorizer = database.known_categorizer(CATEGORIZER).map_err(text)?;
        let began_ms = work.world.boot_ms();
        let articles = database.unscored(categorizer).map_err(text)?;
        tracing::info!(
            entityId = categorizer,
            articles = articles.len(),
            keywords = keywords.len(),
            tookMs = work.world.boot_ms() - began_ms,
            memoryMib = memory_mib(),
            "Selected articles without a score"
        );
        tracing::info!("Loading the model");
        let model = blocking(move || Model::load(&folder.join(MODEL_FOLDER))).await?;
        let model = Arc::new(model.map_err(|error| {
            tracing::error!(%error, "The sentence model cannot be loaded");
            model_trouble(&error)
        })?);
        let keywords = keywords.into_iter().map(|text| Keyword { text, vector: Vec::new() }).collect();
        let tally = Tally { selected: articles.len(), ..Tally::default() };
        Ok(Self { work, database, categorizer, model, keywords, articles, tally })
    }

    async fn run(mut self) -> Report {
        let mut articles = std::mem::take(&mut self.articles);
        let mut processed = 0;
        if let Err(ended) = self.embed_keywords().await {
            return self.cut_short(ended, &articles);
        }
        while !articles.is_empty() {
            match self.selected_anew() {
                Ok(None) => {}
                Ok(Some(anew)) => {
                    self.tally.selected = processed + anew.len();
                    articles = anew;
                    continue;
                }
                Err(error) => return self.cut_short(error.into(), &articles),
            }
            let rest = articles.split_off(articles.len().min(BATCH));
            let batch = std::mem::replace(&mut articles, rest);
            match self.batch(&batch).await {
                Ok(()) => {}
                // What was not written is selected again, from the file that is there now.
                Err(Ended::Failed(_)) if !self.database.is_current() => {
                    articles = [batch, articles].concat();
                    continue;
                }
                Err(ended) => return self.cut_short(ended, &[batch, articles].concat()),
            }
            processed += batch.len();
            if batch.len() == BATCH {
                tracing::info!(processed, of = processed + articles.len(), "Scored articles");
                self.note(RUNNING_FILE, processed);
            }
        }
        self.note(COMPLETED_FILE, processed);
        // Short runs never had one.
        let _ = std::fs::remove_file(self.work.settings.scorer_folder.join(RUNNING_FILE));
        let message =
            format!("All {processed} articles were looked at; {} have a score.", self.tally.succeeded);
        self.end(End::Completed, "articles_exhausted", message, &[])
    }

    /// The articles without a score in another file, when the database was replaced by one.
    fn selected_anew(&mut self) -> Result<Option<Vec<i64>>, DatabaseError> {
        if !self.database.follow()? {
            return Ok(None);
        }
        self.categorizer = self.database.known_categorizer(CATEGORIZER)?;
        self.database.unscored(self.categorizer).map(Some)
    }

    fn cut_short(self, ended: Ended, rest: &[i64]) -> Report {
        match ended {
            Ended::Failed(error) => self.end(End::Failed, "error", error, rest),
            Ended::Stopped => {
                let message = format!("Canceled; {} articles were not attempted.", rest.len());
                self.end(End::Canceled, "canceled", message, rest)
            }
        }
    }

    /// Once for all articles.
    async fn embed_keywords(&mut self) -> Result<(), Ended> {
        let texts = self.keywords.iter().map(|keyword| keyword.text.clone()).collect();
        let vectors = embed(&self.model, texts, &self.work.stop).await?;
        for (keyword, vector) in self.keywords.iter_mut().zip(vectors) {
            keyword.vector = vector;
        }
        Ok(())
    }

    /// Scores some articles and writes their scores, all or none.
    async fn batch(&mut self, ids: &[i64]) -> Result<(), Ended> {
        let texts = self.database.score_texts(ids)?;
        let (mut articles, mut usable) = (Vec::new(), Vec::new());
        let mut skipped = Vec::new();
        for ScoreText { article, text } in texts {
            match text {
                Some(text) => {
                    articles.push(article);
                    usable.push(text);
                }
                None => skipped.push((article, "no_usable_text")),
            }
        }
        let vectors = embed(&self.model, usable, &self.work.stop).await?;
        let mut scores = Vec::new();
        for (article, vector) in articles.into_iter().zip(vectors) {
            match nearest(&self.keywords, &vector) {
                Some((keyword, rating)) => scores.push(Score { article, keyword, rating }),
                None => skipped.push((article, "no_score_result")),
            }
        }
        let now = self.work.world.wall();
        let gone = self.database.save_scores(self.categorizer, &scores, now)?;
        self.tally.succeeded += scores.len() - gone.len();
        skipped.extend(gone.into_iter().map(|article| (article, "article_gone")));
        for (article, reason) in skipped {
            self.tally.skipped.article(article, reason);
        }
        Ok(())
    }

    /// The text file by which other programs see how far it is.
    fn note(&self, name: &str, count: usize) {
        let text = format!("Count of Loops: {count}, on {}", self.work.world.wall());
        if let Err(error) = write_whole(&self.work.settings.scorer_folder.join(name), text.as_bytes()) {
            tracing::warn!(file = name, kind = %error.kind(), "The status file could not be written");
        }
    }

    fn end(mut self, end: End, reason: &'static str, message: String, rest: &[i64]) -> Report {
        for article in rest {
            self.tally.not_attempted.add(json!({ "id": article }));
        }
        Report::new(end, reason, message, self.tally).with("keywordsCount", self.keywords.len())
    }
}

/// The keyword that a vector is nearest to; of two that are equally near the
/// first. What is nearer to the opposite of all keywords has no score.
fn nearest<'a>(keywords: &'a [Keyword], vector: &[f32]) -> Option<(&'a str, f64)> {
    let mut best: Option<(&str, f64)> = None;
    for Keyword { text, vector: other } in keywords {
        let rating = cosine(vector, other);
        if rating >= 0.0 && best.is_none_or(|(_, best)| rating > best) {
            best = Some((text, rating));
        }
    }
    best
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    let norms = dot(a, a).sqrt() * dot(b, b).sqrt();
    if norms > 0.0 { dot(a, b) / norms } else { -1.0 }
}

/// The texts of the first column below the head; blank ones are none.
fn keywords(path: &Path) -> Result<Vec<String>, String> {
    let sheet = workbook::read_file(path, &Limits::default());
    let Sheet { name: _, rows } = sheet.map_err(|error| format!("{KEYWORDS_FILE}: {error}"))?;
    let rows = rows.iter().filter(|row| row.number > 1);
    for (row, reason) in rows.clone().filter_map(|row| Some((row.number, row.cell(0)?.trouble()?))) {
        tracing::warn!(
            row,
            reason,
            "Keyword has no value and is left out; open the workbook in Excel and save it"
        );
    }
    let texts = rows.map(|row| row.text(0).trim().to_owned());
    let keywords: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    if keywords.is_empty() {
        return Err(format!(
            "{KEYWORDS_FILE} has no keyword: put one into each row of column A, from the second on"
        ));
    }
    Ok(keywords)
}

/// Why there is no model, for people who ask over HTTP: the file's own name
/// and what to do, but not where on the machine it was looked for.
fn model_trouble(error: &LoadError) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let what = match error {
        LoadError::Missing { file, .. } => format!("{file} is missing"),
        LoadError::Unreadable { path, source } => {
            format!("{} cannot be read ({})", name(path), source.kind())
        }
        LoadError::Unusable { path, .. } => format!("{} is damaged, or of another kind of model", name(path)),
        other => other.code().to_owned(),
    };
    format!(
        "the sentence model cannot be used: {what}; put {MODEL_FILES} of {MODEL_NAME} into {MODEL_FOLDER} \
         in PATH_TO_SEMANTIC_SCORER_DIR"
    )
}

/// Why there are no vectors.
enum Ended {
    Stopped,
    Failed(String),
}

impl From<DatabaseError> for Ended {
    fn from(error: DatabaseError) -> Self {
        Self::Failed(error.to_string())
    }
}

async fn embed(model: &Arc<Model>, texts: Vec<String>, stop: &Stop) -> Result<Vec<Vec<f32>>, Ended> {
    let (model, stop) = (model.clone(), stop.clone());
    let vectors = blocking(move || {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let go_on = |_| if stop.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        model.embed_with(&texts, go_on)
    });
    match vectors.await.map_err(Ended::Failed)? {
        Ok(vectors) => Ok(vectors),
        Err(EmbedError::Stopped { .. }) => Err(Ended::Stopped),
        Err(error) => Err(Ended::Failed(error.to_string())),
    }
}

/// Work that keeps a thread busy, beside those that listen for SIGTERM.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| "the scorer made a mistake; the log says where".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_nearest_wins() {
        let keyword = |text: &str, vector: &[f32]| Keyword { text: text.into(), vector: vector.into() };
        let keywords = [
            keyword("opposite", &[-1.0, 0.0]),
            keyword("far", &[0.0, 1.0]),
            keyword("near", &[2.0, 0.0]),
            keyword("near too", &[1.0, 0.0]),
            keyword("nothing", &[0.0, 0.0]),
        ];
        assert_eq!(nearest(&keywords, &[3.0, 0.0]), Some(("near", 1.0)));
        assert_eq!(nearest(&keywords[..1], &[1.0, 0.0]), None, "a negative best is no score");
        assert_eq!(nearest(&keywords[1..2], &[1.0, 0.0]), Some(("far", 0.0)), "zero is a score");
        assert_eq!(nearest(&keywords[4..], &[1.0, 0.0]), None);
    }
}
