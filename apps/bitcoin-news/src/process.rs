//! The processor: an article goes through its steps, each counted before its call and stored after it.

use std::sync::Arc;
use std::time::Duration;

use windlass_engine::core::store::{Source, Spent};
use windlass_engine::world::World;
use windlass_engine::{BudgetName, Context, Failure, Stop};
use windlass_outside::article::ArticleError;
use windlass_outside::models::reading::{self, Summary};
use windlass_outside::models::{Model, ModelError, ModelFault, Question, Reply};
use windlass_outside::news::Sentiment;
use windlass_outside::safe_http::HttpError;

use crate::archive::Archive;
use crate::article::{Article, State, Which};
use crate::breaker::Breaker;
use crate::clock::StoreTime;
use crate::jobs::{MODEL_BUDGET, Work};
use crate::moves::{Fault, Next, Rules};
use crate::questions;
use crate::reason::Reason;
use crate::sources::Pages;

/// How long a call may go on when the process was told to end. Then it is given up, and repeated later.
const LAST_MS: u64 = 5_000;

/// What the processor works with.
pub struct Processor {
    /// Where everything is kept.
    pub archive: Archive,
    /// Who reads articles.
    pub model: Arc<dyn Model>,
    /// Who has pages.
    pub pages: Arc<dyn Pages>,
    /// How often things are tried.
    pub rules: Rules,
    /// Whether questions are counted.
    pub counts_calls: bool,
    /// Clock and waiting.
    pub world: Arc<dyn World>,
    /// Whether the model answers, as far as this process knows.
    pub breaker: Breaker,
}

/// What a call came to.
enum Came {
    Meant(Sentiment),
    Text(String),
    Sum(String),
    Nothing(Fault),
}

/// An article in hand.
struct Hand<'c> {
    processor: &'c Processor,
    ctx: &'c Context,
    time: StoreTime,
    /// When it was taken up. What is due by then is done in this look; what comes to nothing in it waits for the
    /// next one, however long the calls of this one take.
    taken_ms: i64,
    /// What the model's outage means for its steps, when this look has met one: it is not asked again.
    away: Option<Fault>,
    article: Article,
    rev: u64,
    /// How it was before it was taken.
    was: State,
    /// The text of its page, when it was fetched here or is to be written.
    text: Option<String>,
    text_is_stored: bool,
}

/// The handler of [`Work`].
pub async fn process(work: Work, processor: Arc<Processor>, ctx: Context) -> Result<(), Failure> {
    let archive = &processor.archive;
    let Some(entry) = archive.articles.get(&work.id).await? else { return Ok(()) };
    let mut article = entry.value;
    if article.state.is_over() || (work.round != article.round && !work.first) {
        return Ok(());
    }
    let time = StoreTime::ask(&**archive.client.store(), &processor.world).await?;
    let was = match &article.state {
        // It was in somebody's hands who died.
        State::Current { since_ms } if article.round > 0 => State::Later { since_ms: *since_ms },
        State::Current { .. } => State::Pending,
        state => state.clone(),
    };
    let taken_ms = time.ms();
    article.take_up(&processor.rules, taken_ms);
    if work.first {
        article.hurry();
    }
    tracing::info!("Processing article: {}", work.id);
    let hand = Hand {
        processor: &processor,
        ctx: &ctx,
        time,
        taken_ms,
        away: None,
        article,
        rev: entry.rev,
        was,
        text: None,
        text_is_stored: false,
    };
    hand.work().await
}

impl Hand<'_> {
    async fn work(mut self) -> Result<(), Failure> {
        loop {
            match self.article.next(self.taken_ms) {
                Next::Over => return self.finish().await,
                Next::Wait { .. } => return self.put_back().await,
                Next::Call(which) => {
                    self.ctx.go_on().await?;
                    if which == Which::Summary && !self.has_text().await? {
                        self.article.unfetched();
                        continue;
                    }
                    self.article.begin(which, self.time.ms());
                    self.store(None).await?;
                    self.call(which).await?;
                }
            }
        }
    }

    /// Makes the call of a step. When the process is told to end, the call has a moment to come to its end.
    async fn call(&mut self, which: Which) -> Result<(), Failure> {
        let came = {
            let call = self.came(which);
            tokio::pin!(call);
            let told = async {
                let stop = self.ctx.stopping().await;
                if stop == Stop::Shutdown {
                    self.processor.world.sleep_ms(LAST_MS).await;
                }
            };
            tokio::select! { biased; came = &mut call => Some(came?), () = told => None }
        };
        let (rules, now_ms) = (&self.processor.rules, self.time.ms());
        match came {
            Some(Came::Meant(sentiment)) => self.article.meant(sentiment, now_ms),
            Some(Came::Sum(summary)) => self.article.summed_up(summary, now_ms),
            Some(Came::Text(text)) => {
                self.article.fetched(now_ms);
                (self.text, self.text_is_stored) = (Some(text), false);
            }
            Some(Came::Nothing(fault)) => {
                if let Fault::Counts(reason) | Fault::Ends(reason) | Fault::Waits { reason, .. } = &fault {
                    tracing::warn!(article = self.article.id(), step = ?which, %reason, "A step came to nothing");
                }
                // Only the model is waited for.
                if matches!(fault, Fault::Waits { .. }) {
                    self.away = Some(fault.clone());
                }
                self.article.failed(which, fault, rules, now_ms);
            }
            None => return self.let_go(which).await,
        }
        Ok(())
    }

    async fn came(&self, which: Which) -> Result<Came, Failure> {
        let news = &self.article.news;
        match which {
            Which::Content => Ok(self.page(news.link.as_deref().unwrap_or_default()).await),
            Which::Sentiment => {
                let asked = self.ask(&questions::sentiment(news)).await?;
                Ok(asked.map_or_else(Came::Nothing, |reply| match reading::sentiment(&reply) {
                    Some(sentiment) => Came::Meant(sentiment),
                    None => Came::Nothing(Fault::Counts(Reason::model_answer("none_of_the_three"))),
                }))
            }
            Which::Summary => {
                let text = self.text.as_deref().unwrap_or_default();
                if text.chars().take(questions::TEXT_CHARS_MIN).count() < questions::TEXT_CHARS_MIN {
                    return Ok(Came::Nothing(Fault::Ends(Reason::mismatch())));
                }
                let asked = self.ask(&questions::summary(news, text)).await?;
                Ok(asked.map_or_else(Came::Nothing, |reply| match reading::summary(&reply) {
                    Ok(Summary::Text(text)) => Came::Sum(text),
                    Ok(Summary::Mismatch) => Came::Nothing(Fault::Ends(Reason::mismatch())),
                    Err(error) => Came::Nothing(Fault::Counts(Reason::model_answer(error.code()))),
                }))
            }
        }
    }

    async fn page(&self, link: &str) -> Came {
        let now_ms = u64::try_from(self.time.ms()).unwrap_or_default();
        match self.processor.pages.text(link, now_ms).await {
            Ok(text) => Came::Text(text),
            Err(error) => Came::Nothing(page_fault(&error)),
        }
    }

    /// Asks the model, within its budget, and once in a look when it is away.
    async fn ask(&self, question: &Question) -> Result<Result<Reply, Fault>, Failure> {
        if let Some(fault) = &self.away {
            return Ok(Err(fault.clone()));
        }
        if let Some(fault) = self.processor.budget(&self.time).await? {
            return Ok(Err(fault));
        }
        let began_ms = self.time.ms();
        let error = match self.processor.model.ask(question).await {
            Ok(reply) => {
                self.processor.breaker.answered();
                return Ok(Ok(reply));
            }
            Err(error) => error,
        };
        Ok(Err(self.processor.model_fault(&error, began_ms, &self.time).await?))
    }

    async fn has_text(&mut self) -> Result<bool, Failure> {
        if self.text.is_none() && self.article.content.value().is_some() {
            let entry = self.processor.archive.texts.get(self.article.id()).await?;
            self.text = entry.map(|entry| entry.value);
            self.text_is_stored = self.text.is_some();
        }
        Ok(self.text.is_some() || self.article.content.value().is_none())
    }

    /// Stores the article as it is now, with a text that is not stored yet; `work` is enqueued with it.
    async fn store(&mut self, work: Option<windlass_engine::JobRequest<()>>) -> Result<(), Failure> {
        let archive = &self.processor.archive;
        let mut batch = archive.client.batch().under(self.ctx);
        archive.put(&mut batch, &self.article).if_rev(self.rev);
        if self.article.state.is_over() {
            batch.delete(&archive.texts, self.article.id());
        } else if let Some(text) = self.text.as_ref().filter(|_| !self.text_is_stored) {
            archive.put_text(&mut batch, self.article.id(), text);
            self.text_is_stored = true;
        }
        if let Some(work) = work {
            batch.enqueue(work);
        }
        // Changed meanwhile by an operator or by a bound: it is looked at anew.
        let stored = batch.commit().await?;
        self.rev = stored.revs.first().copied().unwrap_or_default();
        Ok(())
    }

    async fn finish(mut self) -> Result<(), Failure> {
        self.article.finish(self.time.ms());
        self.store(None).await?;
        let id = self.article.id();
        match &self.article.state {
            State::Failed { reason, .. } => {
                tracing::warn!(article = id, %reason, "Article finished with empty values");
            }
            _ => tracing::info!(article = id, "✓ Article fully processed"),
        }
        Ok(())
    }

    async fn put_back(mut self) -> Result<(), Failure> {
        let now_ms = self.time.ms();
        self.article.put_back(now_ms);
        let work = Work::of(&self.article, now_ms);
        self.store(Some(work)).await?;
        let reason = self.article.reason().map(Reason::as_str).unwrap_or_default();
        tracing::info!(article = self.article.id(), reason, "Moving article to try-later list");
        Ok(())
    }

    /// The call was given up since the process ends: it has cost nothing.
    async fn let_go(&mut self, which: Which) -> Result<(), Failure> {
        self.article.failed(which, Fault::GivenBack, &self.processor.rules, self.time.ms());
        self.article.let_go(self.was.clone());
        self.store(None).await?;
        self.ctx.go_on().await?;
        Err(Failure::Released)
    }
}

impl Processor {
    /// Spends a question; a fault when there is none left for now.
    async fn budget(&self, time: &StoreTime) -> Result<Option<Fault>, Failure> {
        if let Some((reason, at_least)) = self.breaker.enter(self.rules.first_delay_ms(), time.ms()) {
            return Ok(Some(Fault::Waits { reason, at_least }));
        }
        if !self.counts_calls {
            return Ok(None);
        }
        let store = &**self.archive.client.store();
        Ok(match Source::spend(store, BudgetName::new(MODEL_BUDGET)?, 1).await? {
            Spent::Granted => None,
            Spent::Wait { in_ms } => Some(waits("budget", Duration::from_millis(in_ms))),
            Spent::Never => Some(waits("budget", Duration::ZERO)),
        })
    }

    /// What a model's error means, when the question was asked at `began_ms`. One that asks for a pause is left
    /// alone by everybody; one that does not answer has a rest of the first rung, and of no less than the time
    /// that it has taken, so that questions in vain never take more than half of it.
    async fn model_fault(
        &self,
        error: &ModelError,
        began_ms: i64,
        time: &StoreTime,
    ) -> Result<Fault, Failure> {
        let (code, now_ms) = (error.code(), time.ms());
        let wall_ms = u64::try_from(now_ms).unwrap_or_default();
        let at_least = error.retry_after().map(|after| after.delay(wall_ms)).unwrap_or_default();
        let reason = match error.fault() {
            ModelFault::Away => Reason::model_away(code),
            ModelFault::Settings => Reason::model_settings(code),
            ModelFault::Answer => {
                self.breaker.answered();
                return Ok(Fault::Counts(Reason::model_answer(code)));
            }
        };
        let rest_ms = self.rules.first_delay_ms().max(now_ms.saturating_sub(began_ms));
        self.breaker.failed(&reason, rest_ms, now_ms);
        if !at_least.is_zero() {
            self.breaker.pause(i64::try_from(at_least.as_millis()).unwrap_or(i64::MAX), now_ms);
            if self.counts_calls {
                let for_ms = u64::try_from(at_least.as_millis()).unwrap_or(u64::MAX);
                Source::cool_down(&**self.archive.client.store(), BudgetName::new(MODEL_BUDGET)?, for_ms)
                    .await?;
            }
        }
        Ok(Fault::Waits { reason, at_least })
    }
}

fn waits(code: &str, at_least: Duration) -> Fault {
    Fault::Waits { reason: Reason::model_away(code), at_least }
}

/// What a page's error means: an address that leads inside, or a site that does not want us, stays so.
fn page_fault(error: &ArticleError) -> Fault {
    let reason = match error.status() {
        Some(status) => Reason::fetch(&format!("status {status}")),
        None => Reason::fetch(error.code()),
    };
    match error {
        ArticleError::Robots { .. } | ArticleError::Http(HttpError::Refused(_)) => Fault::Ends(reason),
        _ => Fault::Counts(reason),
    }
}
