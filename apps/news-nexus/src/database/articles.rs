//! Articles that a search found, and the searches themselves.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};
use windlass_engine::core::time::Time;
use windlass_outside::google_rss::{Item, Query};

use super::{Database, DatabaseError, day, moment};

/// The name under which our searches are known.
const ORGANISATION: &str = "Google News RSS";

/// Who found articles: the source and the entity of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundBy {
    source: i64,
    entity: i64,
}

/// What a search gave.
pub(crate) struct Feed<'a> {
    pub url: &'a str,
    pub query: &'a Query,
    /// The items; nothing when the search failed.
    pub items: Option<&'a [Item]>,
}

impl Database {
    /// The entry of this program, made when there is none.
    pub(crate) fn found_by(&mut self, now: Time) -> Result<FoundBy, DatabaseError> {
        let transaction = self.transaction()?;
        let id = |find: &str, add: &str, key: &dyn rusqlite::ToSql| -> rusqlite::Result<i64> {
            let found = transaction.query_row(find, [key], |row| row.get(0)).optional()?;
            if let Some(found) = found {
                return Ok(found);
            }
            transaction.execute(add, params![key, moment(now)])?;
            Ok(transaction.last_insert_rowid())
        };
        let source = id(
            include_str!("../../sql/source_find.sql"),
            include_str!("../../sql/source_add.sql"),
            &ORGANISATION,
        )?;
        let entity =
            id(include_str!("../../sql/finder_find.sql"), include_str!("../../sql/finder_add.sql"), &source)?;
        transaction.commit()?;
        Ok(FoundBy { source, entity })
    }

    /// Whether the same search has succeeded since a moment.
    pub(crate) fn searched_since(&self, url: &str, since: Time) -> Result<bool, DatabaseError> {
        let sql = include_str!("../../sql/request_repeated.sql");
        Ok(self.connection.query_row(sql, params![url, moment(since)], |row| row.get(0))?)
    }

    /// Writes down a search and the articles that are new, all or nothing.
    /// Answers how many were new.
    pub(crate) fn save_feed(
        &mut self,
        by: FoundBy,
        feed: &Feed<'_>,
        now: Time,
    ) -> Result<usize, DatabaseError> {
        let items = feed.items.unwrap_or_default();
        let urls: Vec<&str> = items.iter().filter_map(|item| item.link.as_deref()).collect();
        let urls = serde_json::to_string(&urls).unwrap_or_else(|_| "[]".to_owned());
        // The walk over the whole table is done before others have to wait for
        // us; within the transaction only what came meanwhile is looked at.
        let newest =
            self.connection.query_row(include_str!("../../sql/articles_newest.sql"), [], |row| row.get(0))?;
        let mut known = HashSet::new();
        if !items.is_empty() {
            known_urls(&self.connection, &urls, 0, &mut known)?;
        }
        let transaction = self.transaction()?;
        known_urls(&transaction, &urls, newest, &mut known)?;
        let request = add_request(&transaction, by, feed, items.len(), now)?;
        let mut saved = 0;
        for item in items {
            let Some(link) = &item.link else { continue };
            if known.insert(link.clone()) {
                add_article(&transaction, by, request, link, item, now)?;
                saved += 1;
            }
        }
        transaction.execute(include_str!("../../sql/request_saved.sql"), params![request, saved as i64])?;
        transaction.commit()?;
        Ok(saved)
    }
}

fn known_urls(
    connection: &Connection,
    urls: &str,
    after: i64,
    known: &mut HashSet<String>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/articles_known.sql"))?;
    for url in statement.query_map(params![urls, after], |row| row.get(0))? {
        known.insert(url?);
    }
    Ok(())
}

fn add_request(
    connection: &Connection,
    by: FoundBy,
    feed: &Feed<'_>,
    received: usize,
    now: Time,
) -> rusqlite::Result<i64> {
    let status = if feed.items.is_some() { "success" } else { "error" };
    let Feed { url, query, items: _ } = feed;
    connection.execute(
        include_str!("../../sql/request_add.sql"),
        params![by.source, received as i64, day(now), status, url, query.and, query.or, moment(now)],
    )?;
    Ok(connection.last_insert_rowid())
}

fn add_article(
    connection: &Connection,
    by: FoundBy,
    request: i64,
    link: &str,
    item: &Item,
    now: Time,
) -> rusqlite::Result<()> {
    let Item { title, description, link: _, source, published: _, published_ms, content } = item;
    // A date that cannot be read is no date; what is before 1970 is none either.
    let published = published_ms.filter(|ms| *ms >= 0).map(|ms| day(Time::from_ms(ms)));
    connection.execute(
        include_str!("../../sql/article_add.sql"),
        params![source, title, description, link, published, by.entity, request, moment(now)],
    )?;
    if let Some(content) = content.as_ref().filter(|content| !content.is_empty()) {
        let article = connection.last_insert_rowid();
        connection
            .execute(include_str!("../../sql/content_add.sql"), params![article, content, moment(now)])?;
    }
    Ok(())
}
