//! The updater: pages of news become articles, each with its job, in the same commit as how far it came.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_engine::core::store::{Source, Spent};
use windlass_engine::world::World;
use windlass_engine::{BudgetName, Context, Entry, Failure, ShelfError};
use windlass_outside::news::{NewsArticle, NewsError, NewsPage, NewsProvider};

use crate::archive::{Archive, LastRun, Progress};
use crate::article::Article;
use crate::bounds;
use crate::clock::StoreTime;
use crate::jobs::{NEWS_BUDGET, Work};
use crate::scan::{Run, Way};

/// How many articles one commit carries: each is two records and a job.
const COMMIT_ARTICLES_MAX: usize = 400;
/// How often a commit is tried again when somebody else has written meanwhile.
const CONFLICTS_MAX: u32 = 20;
/// How long a provider whose credits are used up is left alone, when it does not say.
const QUOTA_REST: Duration = Duration::from_secs(3_600);
/// A run that has to wait longer ends: the next one is near.
const WAIT_MAX: Duration = Duration::from_secs(1_800);

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Pages that were asked for.
    pub pages: u32,
    /// Articles on them.
    pub found: u64,
    /// Of these, the new ones.
    pub new: u64,
    /// Articles that were skipped, since more waited than may.
    pub skipped: u64,
    /// What the provider gave and nobody could show: without an id or without a title.
    #[serde(default)]
    pub unusable: u64,
    /// Whether everything back to the last run was seen; otherwise the next run goes on.
    pub complete: bool,
}

/// What the updater works with.
#[derive(Clone)]
pub struct Updater {
    /// Where everything is kept.
    pub archive: Archive,
    /// Who gives news.
    pub provider: Arc<dyn NewsProvider>,
    /// Clock and waiting.
    pub world: Arc<dyn World>,
    /// How many pages one run asks for.
    pub pages_max: u32,
}

/// Why a run ended before it was complete.
enum Trouble {
    /// The provider said no.
    News(NewsError),
    /// The budget has nothing left for so long.
    Spent(Duration),
    /// The attempt itself ends.
    Attempt(Failure),
}

impl<E: Into<Failure>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Attempt(error.into())
    }
}

/// The handler of [`crate::jobs::Update`].
pub async fn update(updater: Arc<Updater>, ctx: Context) -> Result<Report, Failure> {
    let mut report = Report::default();
    let ended = updater.run(&ctx, &mut report).await;
    let trouble = ended.as_ref().err().map(Trouble::text);
    if !matches!(ended, Err(Trouble::Attempt(Failure::LeaseLost))) {
        updater.note(&ctx, &report, trouble.clone()).await?;
    }
    let Report { pages, found, new, skipped, unusable, complete } = report;
    match (ended, trouble) {
        (Ok(()), _) => {
            tracing::info!(pages, found, new, skipped, unusable, complete, "Updater finished");
            Ok(report)
        }
        (Err(trouble), text) => {
            let reason = text.unwrap_or_default();
            tracing::warn!(
                pages,
                found,
                new,
                skipped,
                unusable,
                reason,
                "Updater ended early; what is missing comes next time"
            );
            Err(updater.failure(&ctx, trouble).await)
        }
    }
}

impl Trouble {
    fn text(&self) -> String {
        match self {
            Self::News(error) => error.to_string(),
            Self::Spent(wait) => format!(
                "the credits of the day are spent, or the provider asked for a pause; again in {} s (NEWS_CREDITS_PER_DAY)",
                wait.as_secs()
            ),
            Self::Attempt(failure) => failure.to_string(),
        }
    }
}

impl Updater {
    async fn run(&self, ctx: &Context, report: &mut Report) -> Result<(), Trouble> {
        let name = self.provider.name();
        let time = StoreTime::ask(&**self.archive.client.store(), &self.world).await?;
        let mut progress = self.archive.progress.get(name).await?;
        let scan = progress.as_ref().map(|entry| entry.value.scan.clone()).unwrap_or_default();
        let (mut run, mut way) = scan.begin(self.archive.bounds().stored_max);
        let mut pending = bounds::Pending::count(&self.archive).await?;
        while let Way::Page(cursor) = &way {
            ctx.go_on().await?;
            if report.pages == self.pages_max {
                break;
            }
            self.spend().await?;
            report.pages += 1;
            let page = match self.provider.page(cursor.as_ref()).await {
                Err(NewsError::BadCursor { .. }) => {
                    way = run.lost();
                    continue;
                }
                page => page.map_err(Trouble::News)?,
            };
            report.found += page.articles.len() as u64;
            report.unusable += page.skipped as u64;
            way = run.take(&page);
            progress = self.store(ctx, &run, progress, page, &time, &mut pending, report).await?;
        }
        report.complete = way == Way::Done;
        report.skipped += bounds::tidy(&self.archive, time.ms()).await?;
        Ok(())
    }

    async fn spend(&self) -> Result<(), Trouble> {
        let budget = BudgetName::new(NEWS_BUDGET)?;
        match Source::spend(&**self.archive.client.store(), budget, 1).await? {
            Spent::Granted => Ok(()),
            Spent::Wait { in_ms } => Err(Trouble::Spent(Duration::from_millis(in_ms))),
            Spent::Never => Err(Trouble::Spent(QUOTA_REST)),
        }
    }

    /// Stores a page: its new articles with their jobs, and with the last of them how far the run came.
    #[expect(clippy::too_many_arguments, reason = "one call site; each is another part of one commit")]
    async fn store(
        &self,
        ctx: &Context,
        run: &Run,
        progress: Option<Entry<Progress>>,
        page: NewsPage,
        time: &StoreTime,
        pending: &mut bounds::Pending,
        report: &mut Report,
    ) -> Result<Option<Entry<Progress>>, Trouble> {
        let mut articles = page.articles;
        let mut once = HashSet::new();
        articles.retain(|article| once.insert(article.id.clone()));
        let last_at = articles.len().saturating_sub(1) / COMMIT_ARTICLES_MAX;
        let mut progress = progress;
        for (at, articles) in chunks(articles).into_iter().enumerate() {
            let mut value = progress.as_ref().map(|entry| entry.value.clone()).unwrap_or_default();
            if at == last_at {
                value.scan = run.scan().clone();
            }
            let (new, skipped) = self.commit(ctx, &mut value, &progress, &articles, time, pending).await?;
            report.new += new;
            report.skipped += skipped;
            progress = self.archive.progress.get(self.provider.name()).await?;
        }
        Ok(progress)
    }

    async fn commit(
        &self,
        ctx: &Context,
        value: &mut Progress,
        before: &Option<Entry<Progress>>,
        articles: &[NewsArticle],
        time: &StoreTime,
        pending: &mut bounds::Pending,
    ) -> Result<(u64, u64), Trouble> {
        let archive = &self.archive;
        for _ in 0..CONFLICTS_MAX {
            let ids: Vec<&str> = articles.iter().map(|article| article.id.as_str()).collect();
            let known = archive.known(&ids).await?;
            let new = articles.iter().zip(known).filter(|(_, known)| !known).map(|(article, _)| article);
            let now_ms = time.ms();
            let mut new: Vec<Article> = new.map(|news| Article::new(news.clone(), now_ms)).collect();
            let over = pending.make_room(archive, &mut new, now_ms).await?;
            let skipped = (over.len() + new.iter().filter(|article| article.state.is_over()).count()) as u64;
            let mut batch = archive.client.batch().under(ctx);
            let mut stored = value.clone();
            stored.skipped += skipped;
            let put = batch.put(&archive.progress, self.provider.name(), &stored);
            match before {
                Some(entry) => drop(put.if_rev(entry.rev)),
                None => drop(put.if_absent()),
            }
            for article in &new {
                archive.put(&mut batch, article).if_absent();
                archive.put_seen(&mut batch, article.id(), now_ms).if_absent();
                if !article.state.is_over() {
                    batch.enqueue(Work::of(article, now_ms));
                }
            }
            for entry in &over {
                archive.put(&mut batch, &entry.value).if_rev(entry.rev);
            }
            match batch.commit().await {
                Ok(_) => {
                    pending.added(&new, over.len());
                    return Ok((new.len() as u64, skipped));
                }
                Err(ShelfError::Conflict { .. }) => pending.recount(archive).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Trouble::Attempt(Failure::retry("articles were changed again and again while they were stored")))
    }

    /// Remembers how the run went, for `status`.
    async fn note(&self, ctx: &Context, report: &Report, trouble: Option<String>) -> Result<(), Failure> {
        let at_ms = self.archive.client.store().now().await?.ms();
        let last = LastRun { at_ms, report: report.clone(), trouble };
        let update = self.archive.progress.update(self.provider.name(), |entry| {
            let value = entry.map(|entry| entry.value).unwrap_or_default();
            Progress { last: Some(last.clone()), ..value }
        });
        update.under(ctx).await?;
        Ok(())
    }

    /// What the trouble means for the job: when it is tried again, if at all.
    async fn failure(&self, ctx: &Context, trouble: Trouble) -> Failure {
        let wall_ms = u64::try_from(self.world.wall().ms()).unwrap_or_default();
        let error = match trouble {
            Trouble::Attempt(failure) => return failure,
            Trouble::Spent(wait) if wait <= WAIT_MAX => return Failure::park(wait),
            Trouble::Spent(_) => return Failure::permanent(trouble.text()),
            Trouble::News(error) => error,
        };
        let asked = error.retry_after().map(|after| after.delay(wall_ms));
        let rest = match &error {
            NewsError::Quota { .. } => Some(asked.unwrap_or(QUOTA_REST)),
            _ => asked,
        };
        if let Some(rest) = rest
            && let Err(failure) = ctx.cool_down(NEWS_BUDGET, rest).await
        {
            return failure;
        }
        match rest {
            Some(rest) if rest <= WAIT_MAX => Failure::Park { after: rest, error: Some(error.into()) },
            Some(_) => Failure::permanent(error),
            None if error.is_transient() => Failure::retry(error),
            None => Failure::permanent(error),
        }
    }
}

/// Articles in commits; one commit when there are none, for how far the run came.
fn chunks(articles: Vec<NewsArticle>) -> Vec<Vec<NewsArticle>> {
    if articles.is_empty() {
        return vec![Vec::new()];
    }
    articles.chunks(COMMIT_ARTICLES_MAX).map(<[NewsArticle]>::to_vec).collect()
}
