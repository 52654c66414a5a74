//! Asks a language model in which state of the US an article happened.

mod answer;
mod prompt;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_outside::openai::{Chat, Message, OpenAi, OpenAiError};
use windlass_outside::safe_http::{Guard, Http, HttpError, Limits, Refusal};

use super::Job;
use crate::child::{Work, memory_mib};
use crate::database::{AssignText, Assignment, Database, DatabaseError, Prompt};
use crate::files::write_whole;
use crate::report::{End, Report, Tally};
use crate::settings::Settings;

pub(crate) static JOB: Job =
    Job { name: "state-assigner", endpoint: "/state-assigner/start-job", run: start };

/// The name under which this program categorizes.
const CATEGORIZER: &str = "NewsNexusLlmStateAssigner01";
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
    articles: Vec<i64>,
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
        let categorizer = database.categorizer(CATEGORIZER).map_err(text)?.ok_or_else(|| {
            format!(
                "the database has no entry for {CATEGORIZER}: add it to ArtificialIntelligences, \
                 and its id to EntityWhoCategorizedArticles"
            )
        })?;
        let prompt = database.prompt().map_err(text)?;
        let prompt = prompt.ok_or("the table Prompts is empty: add the prompt as a row of it")?;
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
        Ok(Self { work, openai, database, categorizer, prompt, articles, tally, failures_in_a_row: 0 })
    }

    async fn run(mut self) -> Report {
        let articles = std::mem::take(&mut self.articles);
        for (at, &article) in articles.iter().enumerate() {
            tracing::info!(articleId = article, "Article {} of {}", at + 1, articles.len());
            let became = match self.article(article).await {
                Ok(became) => became,
                Err(error) => return self.end(End::Failed, "error", error.to_string(), &articles[at..]),
            };
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
                    return self.end(End::Failed, reason(&error), error.to_string(), &articles[at + 1..]);
                }
                Article::Stopped => {
                    let message = format!("Canceled; {} articles were not attempted.", articles.len() - at);
                    return self.end(End::Canceled, "canceled", message, &articles[at..]);
                }
            }
            if self.failures_in_a_row == FAILURES_MAX {
                let message = format!(
                    "circuit_breaker: {FAILURES_MAX} articles in a row failed; {} were not attempted. \
                     The log says why each failed; start again when that is mended.",
                    articles.len() - at - 1
                );
                return self.end(End::Failed, "circuit_breaker", message, &articles[at + 1..]);
            }
        }
        let message = format!(
            "All {} articles were attempted; {} have an answer.",
            articles.len(),
            self.tally.succeeded
        );
        self.end(End::Completed, "articles_exhausted", message, &[])
    }

    async fn article(&mut self, article: i64) -> Result<Article, DatabaseError> {
        if self.work.stop.asked() {
            return Ok(Article::Stopped);
        }
        let Some(AssignText { title, content }) = self.database.assign_text(article)? else {
            return Ok(Article::Skipped("article_gone"));
        };
        if title.trim().is_empty() && content.trim().is_empty() {
            return Ok(Article::Skipped("no_usable_content"));
        }
        let chat = self.chat(prompt::fill(&self.prompt.text, &title, &content));
        let openai = self.openai.clone();
        let said = tokio::select! {
            said = openai.chat(&chat) => said,
            () = self.work.stop.wait() => return Ok(Article::Stopped),
        };
        match said {
            Ok(said) => self.settle(article, said.content.expose()),
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
    fn settle(&mut self, article: i64, text: &str) -> Result<Article, DatabaseError> {
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
        let state = match &said.state {
            Some(name) => self.database.state(name)?,
            None => None,
        };
        if said.state.is_some() && state.is_none() {
            tracing::warn!(articleId = article, "The state is not in the table States; saved without one");
        }
        let assignment = Assignment {
            article,
            state,
            categorizer: self.categorizer,
            prompt: self.prompt.id,
            in_the_us: said.in_the_us,
            reasoning: &said.reasoning,
        };
        if !self.database.save_assignment(&assignment, self.work.world.wall())? {
            return Ok(Article::Skipped("article_gone"));
        }
        tracing::info!(articleId = article, occuredInTheUS = said.in_the_us, "State assigned");
        Ok(Article::Done)
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

    fn end(mut self, end: End, reason: &'static str, message: String, rest: &[i64]) -> Report {
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
    let http = Http::new(Guard::new().allow(&base)?);
    OpenAi::new(http, base, settings.openai_key.clone(), Limits::default())
}
