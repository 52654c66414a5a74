//! Asks a language model in which state of the US an article happened.

mod answer;
mod prompt;

use std::collections::VecDeque;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_outside::openai::{Chat, Message, OpenAi, OpenAiError};
use windlass_outside::safe_http::{Guard, Http, HttpError, Limits, Refusal};

use answer::Said;

use super::Job;
use crate::child::{Work, memory_mib};
use crate::database::{AssignText, Assignment, Database, DatabaseError, Prompt};
use crate::files::write_whole;
use crate::report::{End, Report, Tally};
use crate::settings::Settings;

pub(crate) static JOB: Job =
    Job { name: "state-assigner", endpoint: "/state-assigner/start-job", run: start };

/// The name under which this program categorizes.
pub(crate) const CATEGORIZER: &str = "NewsNexusLlmStateAssigner01";
/// So many failures one after the other end the job: the next would fail, too.
const FAILURES_MAX: usize = 5;
const TEMPERATURE: f64 = 0.3;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    target_article_threshold_days_old: u64,
    target_article_state_review_count: u64,
}

fn start(work: Work, parameters: Value) -> BoxFuture<'static, Report> {
    async move {
        match Run::prepare(work, parameters) {
            Ok(run) => run.run().await,
            Err(message) => Report::failed(message),
        }
    }
    .boxed()
}

struct Run {
    work: Work,
    openai: OpenAi,
    database: Database,
    categorizer: i64,
    prompt: Prompt,
    days: u64,
    count: u64,
    articles: Vec<i64>,
    /// The generation of the database's file that they are from.
    selected_from: u64,
    tally: Tally,
    failures_in_a_row: usize,
}

/// What became of one article.
enum Article {
    Done,
    Skipped(&'static str),
    Failed(&'static str),
    /// The key or the account: no other article would do better.
    Hopeless(OpenAiError),
    Stopped,
}

impl Run {
    fn prepare(work: Work, parameters: Value) -> Result<Self, String> {
        let Parameters { target_article_threshold_days_old: days, target_article_state_review_count: count } =
            serde_json::from_value(parameters).map_err(|_| "the parameters of the job cannot be read")?;
        let openai =
            client(&work.settings).map_err(|error| format!("OPENAI_BASE_URL cannot be used: {error}"))?;
        let text = |error: DatabaseError| error.to_string();
        let database = Database::open(&work.settings.database).map_err(text)?;
        let categorizer = database.known_categorizer(CATEGORIZER).map_err(text)?;
        let prompt = database.known_prompt().map_err(text)?;
        let began_ms = work.world.boot_ms();
        let articles = database.unassigned(days, count, work.world.wall()).map_err(text)?;
        tracing::info!(
            days,
            count,
            found = articles.len(),
            promptId = prompt.id,
            tookMs = work.world.boot_ms() - began_ms,
            memoryMib = memory_mib(),
            "Selected articles without a state"
        );
        let tally = Tally { selected: articles.len(), ..Tally::default() };
        let (failures_in_a_row, selected_from) = (0, database.generation());
        Ok(Self {
            work,
            openai,
            database,
            categorizer,
            prompt,
            days,
            count,
            articles,
            selected_from,
            tally,
            failures_in_a_row,
        })
    }

    async fn run(mut self) -> Report {
        let mut articles: VecDeque<i64> = std::mem::take(&mut self.articles).into();
        let mut attempted = 0;
        while let Some(article) = articles.pop_front() {
            match self.selected_anew(attempted) {
                Ok(None) => {}
                Ok(Some(anew)) => {
                    self.tally.selected = attempted + anew.len();
                    articles = anew.into();
                    continue;
                }
                Err(error) => return self.cut_short(&error, article, articles),
            }
            tracing::info!(articleId = article, "Article {} of {}", attempted + 1, self.tally.selected);
            let became = match self.article(article).await {
                Ok(became) => became,
                Err(error) => return self.cut_short(&error, article, articles),
            };
            attempted += 1;
            match became {
                Article::Done => {
                    self.tally.succeeded += 1;
                    self.failures_in_a_row = 0;
                }
                Article::Skipped(reason) => self.tally.skipped.article(article, reason),
                Article::Failed(reason) => {
                    self.tally.failed.article(article, reason);
                    self.failures_in_a_row += 1;
                }
                Article::Hopeless(error) => {
                    self.tally.failed.article(article, error.code());
                    return self.end(End::Failed, reason(&error), error.to_string(), articles);
                }
                Article::Stopped => {
                    articles.push_front(article);
                    let message = format!("Canceled; {} articles were not attempted.", articles.len());
                    return self.end(End::Canceled, "canceled", message, articles);
                }
            }
            if self.failures_in_a_row == FAILURES_MAX {
                let message = format!(
                    "circuit_breaker: {FAILURES_MAX} articles in a row failed; {} were not attempted. \
                     The log says why each failed; start again when that is mended.",
                    articles.len()
                );
                return self.end(End::Failed, "circuit_breaker", message, articles);
            }
        }
        let message =
            format!("All {attempted} articles were attempted; {} have an answer.", self.tally.succeeded);
        self.end(End::Completed, "articles_exhausted", message, [])
    }

    /// The articles without a state in another file, when the database was replaced by one.
    fn selected_anew(&mut self, attempted: usize) -> Result<Option<Vec<i64>>, DatabaseError> {
        self.database.follow()?;
        if self.database.generation() == self.selected_from {
            return Ok(None);
        }
        self.selected_from = self.database.generation();
        self.categorizer = self.database.known_categorizer(CATEGORIZER)?;
        self.prompt = self.database.known_prompt()?;
        let left = self.count.saturating_sub(attempted as u64);
        self.database.unassigned(self.days, left, self.work.world.wall()).map(Some)
    }

    fn cut_short(self, error: &DatabaseError, article: i64, mut rest: VecDeque<i64>) -> Report {
        rest.push_front(article);
        self.end(End::Failed, "error", error.to_string(), rest)
    }

    async fn article(&mut self, article: i64) -> Result<Article, DatabaseError> {
        if self.work.stop.is_asked() {
            return Ok(Article::Stopped);
        }
        let Some(asked) = self.database.assign_text(article)? else {
            return Ok(Article::Skipped("article_gone"));
        };
        let AssignText { title, content } = &asked;
        if title.trim().is_empty() && content.trim().is_empty() {
            return Ok(Article::Skipped("no_usable_content"));
        }
        let chat = self.chat(prompt::fill(&self.prompt.text, title, content));
        let openai = self.openai.clone();
        let said = tokio::select! {
            said = openai.chat(&chat) => said,
            () = self.work.stop.wait() => return Ok(Article::Stopped),
        };
        match said {
            Ok(said) => self.settle(article, &asked, said.content.expose()),
            Err(error @ (OpenAiError::Configuration { .. } | OpenAiError::Quota)) => {
                tracing::error!(articleId = article, %error, "OpenAI refuses the account; the job ends");
                Ok(Article::Hopeless(error))
            }
            Err(error) => {
                tracing::warn!(articleId = article, code = error.code(), %error, "Article skipped: no answer");
                let timeout = matches!(error, OpenAiError::Http(HttpError::Timeout { .. }));
                Ok(Article::Failed(if timeout { "timeout" } else { error.code() }))
            }
        }
    }

    /// Keeps the raw answer, then reads it, then writes down what it says.
    fn settle(&mut self, article: i64, asked: &AssignText, text: &str) -> Result<Article, DatabaseError> {
        if let Err(error) = self.keep_raw(article, text) {
            tracing::error!(articleId = article, kind = %error.kind(), "The raw answer could not be saved");
            return Ok(Article::Failed("response_not_saved"));
        }
        let said = match answer::read(text) {
            Ok(said) => said,
            Err(why) => {
                tracing::warn!(articleId = article, why, "Article skipped: the answer cannot be read");
                return Ok(Article::Failed("analysis_error"));
            }
        };
        if !self.save(article, asked, &said)? {
            return Ok(Article::Skipped("article_gone"));
        }
        tracing::info!(articleId = article, occuredInTheUS = said.in_the_us, "State assigned");
        Ok(Article::Done)
    }

    /// Writes down what the model said; false when the article is gone. In
    /// another file the id may be that of another article.
    fn save(&mut self, article: i64, asked: &AssignText, said: &Said) -> Result<bool, DatabaseError> {
        let (now, mut categorizer, mut prompt) = (self.work.world.wall(), self.categorizer, self.prompt.id);
        self.database.on_current(|database, replaced| {
            if replaced {
                if database.assign_text(article)?.as_ref() != Some(asked) {
                    return Ok(false);
                }
                categorizer = database.known_categorizer(CATEGORIZER)?;
                prompt = database.known_prompt()?.id;
            }
            let state = said.state.as_ref().map_or(Ok(None), |name| database.state(name))?;
            if said.state.is_some() && state.is_none() {
                tracing::warn!(
                    articleId = article,
                    "The state is not in the table States; saved without one"
                );
            }
            let (in_the_us, reasoning) = (said.in_the_us, said.reasoning.as_str());
            let assignment = Assignment { article, state, categorizer, prompt, in_the_us, reasoning };
            database.save_assignment(&assignment, now)
        })
    }

    fn keep_raw(&self, article: i64, text: &str) -> std::io::Result<()> {
        let folder = &self.work.settings.responses_folder;
        std::fs::create_dir_all(folder)?;
        let time = self.work.world.wall().to_string().replace(':', "-");
        write_whole(&folder.join(format!("response-{article}-{time}.json")), text.as_bytes())
    }

    fn chat(&self, text: String) -> Chat {
        Chat {
            model: self.work.settings.model_name.clone(),
            messages: vec![Message::user(text)],
            temperature: Some(TEMPERATURE),
            tokens_max: None,
            schema: None,
        }
    }

    fn end(
        mut self,
        end: End,
        reason: &'static str,
        message: String,
        rest: impl IntoIterator<Item = i64>,
    ) -> Report {
        for article in rest {
            self.tally.not_attempted.add(json!({ "id": article }));
        }
        Report::new(end, reason, message, self.tally).with("promptId", self.prompt.id)
    }
}

fn reason(error: &OpenAiError) -> &'static str {
    if *error == OpenAiError::Quota { "insufficient_quota" } else { "key_refused" }
}

fn client(settings: &Settings) -> Result<OpenAi, Refusal> {
    let base = settings.openai_base_url.clone();
    let http = Http::through(Guard::new().allow(&base)?, settings.proxies.clone());
    OpenAi::new(http, base, settings.openai_key.clone(), Limits::default())
}
