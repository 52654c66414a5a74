//! Searches Google News for every row of a workbook and keeps what is new.

pub(crate) mod rows;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_outside::google_rss::{GoogleRss, Item, Query, SearchError};
use windlass_outside::safe_http::{Guard, Http, Limits, Refusal, parse_url};

use super::Job;
use crate::child::Work;
use crate::database::{Database, DatabaseError, Feed};
use crate::report::{End, Report, Tally};
use crate::settings::Settings;
use rows::{Search, Trouble};

pub(crate) static JOB: Job =
    Job { name: "request-google-rss", endpoint: "/request-google-rss/start-job", run: start };

const AGENT: &str = "NewsNexusRequesterGoogleRss04/1.0";
const HOUR_MS: i64 = 3_600_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    #[serde(default)]
    do_not_repeat_requests_within_hours: u64,
    start_after_row_id: Option<u64>,
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
    rss: GoogleRss,
    database: Database,
    searches: Vec<Search>,
    hours: u64,
    begin: usize,
    tally: Tally,
    received: usize,
    added: usize,
    last: Option<u64>,
}

/// What became of one row.
enum Row {
    Done,
    Skipped(&'static str),
    Failed(String),
    /// Nothing was asked, since nobody knows what was meant.
    Unreadable(&'static str),
    RateLimited,
    Stopped,
}

impl Run {
    fn prepare(work: Work, parameters: Value) -> Result<Self, String> {
        let Parameters { do_not_repeat_requests_within_hours: hours, start_after_row_id } =
            serde_json::from_value(parameters).map_err(|_| "the parameters of the job cannot be read")?;
        let searches = rows::read(&work.settings.spreadsheet).map_err(|error| error.to_string())?;
        let begin = begin(&searches, start_after_row_id)?;
        let pause_ms = work.settings.pause_ms;
        tracing::info!(rows = searches.len(), pauseMs = pause_ms, "Loaded the query spreadsheet");
        let mut database = Database::open(&work.settings.database).map_err(|error| error.to_string())?;
        // Should it not do, that is better known before the first request.
        database.found_by(work.world.wall()).map_err(|error| error.to_string())?;
        let rss =
            client(&work.settings).map_err(|error| format!("GOOGLE_RSS_URL cannot be used: {error}"))?;
        let tally = Tally { selected: searches.len(), ..Tally::default() };
        Ok(Self { work, rss, database, searches, hours, begin, tally, received: 0, added: 0, last: None })
    }

    async fn run(mut self) -> Report {
        let searches = std::mem::take(&mut self.searches);
        for search in &searches[..self.begin] {
            self.tally.skipped.add(entry(search, Some("resume_before_marker")));
            self.last = search.id;
        }
        for (at, search) in searches.iter().enumerate().skip(self.begin) {
            let became = match self.row(search).await {
                Ok(became) => became,
                Err(error) => return self.end(End::Failed, "error", error.to_string(), &searches[at..]),
            };
            let asked = matches!(became, Row::Done | Row::Failed(_));
            match became {
                Row::Done => self.tally.succeeded += 1,
                Row::Skipped(reason) => self.tally.skipped.add(entry(search, Some(reason))),
                Row::Failed(reason) => self.tally.failed.add(entry(search, Some(&reason))),
                Row::Unreadable(reason) => self.tally.failed.add(entry(search, Some(reason))),
                Row::RateLimited => return self.rate_limited(&searches[at..]),
                Row::Stopped => return self.canceled(&searches[at..]),
            }
            self.last = search.id.or(self.last);
            if asked && at + 1 < searches.len() && !self.pause().await {
                return self.canceled(&searches[at + 1..]);
            }
        }
        let message = format!("All {} rows were reached; {} articles are new.", searches.len(), self.added);
        self.end(End::Completed, "queries_exhausted", message, &[])
    }

    async fn row(&mut self, search: &Search) -> Result<Row, DatabaseError> {
        if self.work.stop.is_asked() {
            return Ok(Row::Stopped);
        }
        self.database.follow()?;
        let (row_id, row) = (shown(search.id), search.row);
        if search.id.is_none() {
            tracing::warn!(row, "Row has no id");
        }
        if let Some(Trouble { column, reason }) = search.trouble {
            tracing::warn!(
                rowId = row_id,
                row,
                column,
                reason,
                "Row has a cell without a value; open the workbook in Excel and save it"
            );
            return Ok(Row::Unreadable(reason));
        }
        let Some(query) = &search.query else {
            tracing::warn!(rowId = row_id, row, "Row has no terms and is skipped");
            return Ok(Row::Skipped("empty_query"));
        };
        let url = self.rss.url(&query.text).to_string();
        let now = self.work.world.wall();
        let hours = i64::try_from(self.hours).unwrap_or(i64::MAX);
        if hours > 0 && self.database.searched_since(&url, now.plus_ms(hours.saturating_mul(-HOUR_MS)))? {
            tracing::info!(rowId = row_id, hours, "Row was searched within these hours and is skipped");
            return Ok(Row::Skipped("repeat_window"));
        }
        tracing::info!(
            rowId = row_id,
            days = query.days,
            invalidRange = query.bad_range,
            url,
            "Requesting Google RSS"
        );
        let rss = self.rss.clone();
        let found = tokio::select! {
            found = rss.search(&query.text) => found,
            // What was not answered is not written down: nothing is known of it.
            () = self.work.stop.wait() => return Ok(Row::Stopped),
        };
        self.settle(search, query, &url, found)
    }

    /// Writes down what a search gave.
    fn settle(
        &mut self,
        search: &Search,
        query: &Query,
        url: &str,
        found: Result<Vec<Item>, SearchError>,
    ) -> Result<Row, DatabaseError> {
        let row_id = shown(search.id);
        match found {
            Err(error) if error.is_rate_limit() => {
                tracing::error!(rowId = row_id, %error, "Google asks for a pause; raise MILISECONDS_IN_BETWEEN_REQUESTS");
                Ok(Row::RateLimited)
            }
            Err(error) => {
                let code = error.code();
                tracing::warn!(rowId = row_id, code, %error, "Request failed; the next row follows");
                self.save(&Feed { url, query, items: None })?;
                Ok(Row::Failed(code.to_owned()))
            }
            Ok(mut items) => {
                let received = items.len();
                self.received += received;
                items.retain(|item| item.link.as_deref().is_some_and(|link| parse_url(link).is_ok()));
                let added = self.save(&Feed { url, query, items: Some(&items) })?;
                self.added += added;
                tracing::info!(rowId = row_id, received, added, "Stored the articles of a request");
                Ok(Row::Done)
            }
        }
    }

    fn save(&mut self, feed: &Feed<'_>) -> Result<usize, DatabaseError> {
        let now = self.work.world.wall();
        self.database.on_current(|database, _| {
            let by = database.found_by(now)?;
            database.save_feed(by, feed, now)
        })
    }

    /// Waits before the next request; false when the job is to end.
    async fn pause(&mut self) -> bool {
        tokio::select! {
            () = self.work.world.sleep_ms(self.work.settings.pause_ms) => true,
            () = self.work.stop.wait() => false,
        }
    }

    fn rate_limited(self, rest: &[Search]) -> Report {
        let message = format!(
            "Google asked for a pause; {} rows were not reached. Start again later with startAfterRowId, \
             and raise MILISECONDS_IN_BETWEEN_REQUESTS.",
            rest.len()
        );
        self.end(End::Completed, "rate_limited", message, rest)
    }

    fn canceled(self, rest: &[Search]) -> Report {
        let message = format!("Canceled; {} rows were not reached.", rest.len());
        self.end(End::Canceled, "canceled", message, rest)
    }

    fn end(mut self, end: End, reason: &'static str, message: String, rest: &[Search]) -> Report {
        for search in rest {
            self.tally.not_attempted.add(entry(search, None));
        }
        Report::new(end, reason, message, self.tally)
            .with("articlesReceivedCount", self.received)
            .with("articlesAddedCount", self.added)
            .with("startAfterRowId", self.last)
    }
}

/// The row to begin with: the one after the row with this id.
fn begin(searches: &[Search], after: Option<u64>) -> Result<usize, String> {
    let Some(after) = after else { return Ok(0) };
    let at = searches.iter().position(|search| search.id == Some(after));
    at.map(|at| at + 1).ok_or_else(|| {
        format!("no row of the query spreadsheet has the id {after}; start with another startAfterRowId")
    })
}

fn client(settings: &Settings) -> Result<GoogleRss, Refusal> {
    let base = settings.google_rss_url.clone();
    let http = Http::through(Guard::new().allow(&base)?, settings.proxies.clone());
    Ok(GoogleRss::new(http, base, settings.locale.clone(), Limits::default(), AGENT))
}

fn entry(search: &Search, reason: Option<&str>) -> Value {
    match reason {
        Some(reason) => json!({ "id": search.id, "row": search.row, "reason": reason }),
        None => json!({ "id": search.id, "row": search.row }),
    }
}

fn shown(id: Option<u64>) -> String {
    id.map_or_else(|| "none".to_owned(), |id| id.to_string())
}
