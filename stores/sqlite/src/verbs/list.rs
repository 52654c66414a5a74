//! Pages of jobs, newest first. One question looks at a bounded number of
//! rows and of bytes; then it answers with what it found, and a cursor.

use rusqlite::{Connection, Row, params};
use uuid::Uuid;
use windlass_core::query::{Counted, Cursor, JobFilter, ListRequest, PAGE_MAX, Page};
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::row::{self, Stored, at, opt_text, select_jobs, text};

/// How many rows one question looks at.
const LOOKS_MAX: u32 = 20_000;
/// How many rows are looked at to count them.
const COUNT_MAX: u32 = 20_000;
/// How many bytes of payloads one question searches.
const SEARCH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A page of jobs.
pub fn list(conn: &Connection, request: &ListRequest) -> Done<Page> {
    let limit = request.limit.clamp(1, PAGE_MAX) as usize;
    let before = request.after.map_or(i64::MAX, |cursor| i64::try_from(cursor.0).unwrap_or(i64::MAX));
    let filter = Filter::of(&request.filter);
    let mut select = conn.prepare_cached(select_jobs!("../../sql/jobs/list.sql"))?;
    let mut rows = select.query(params![before, LOOKS_MAX])?;
    let (mut looks, mut bytes) = (0, 0);
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        looks += 1;
        if filter.admits(row, &mut bytes)? {
            if page.jobs.len() == limit {
                page.next = page.jobs.last().map(|job| Cursor(job.seq));
                return Ok(page);
            }
            page.jobs.push(Stored::read(row)?.job);
        }
        if looks == LOOKS_MAX || bytes > SEARCH_BYTES_MAX {
            page.next = Some(Cursor(row.get::<_, i64>(0)?.unsigned_abs()));
            return Ok(page);
        }
    }
    Ok(page)
}

/// How many jobs of the newest are in each state.
pub fn count(conn: &Connection, filter: &JobFilter) -> Done<Counted> {
    let filter = Filter::of(filter);
    let mut select = conn.prepare_cached(select_jobs!("../../sql/jobs/list.sql"))?;
    let mut rows = select.query(params![i64::MAX, COUNT_MAX])?;
    let (mut looks, mut bytes) = (0, 0);
    let mut counted = Counted::default();
    while let Some(row) = rows.next()? {
        looks += 1;
        if filter.admits(row, &mut bytes)?
            && let Some(state) = row::state(row)?
        {
            counted.add(state, 1);
        }
        if looks == COUNT_MAX || bytes > SEARCH_BYTES_MAX {
            counted.more = true;
            break;
        }
    }
    Ok(counted)
}

/// A filter that looks at a row before it is read as a job.
struct Filter<'a> {
    filter: &'a JobFilter,
    text: Option<String>,
}

impl<'a> Filter<'a> {
    fn of(filter: &'a JobFilter) -> Self {
        Self { filter, text: filter.text.as_deref().map(str::to_ascii_lowercase) }
    }

    fn admits(&self, row: &Row<'_>, bytes: &mut usize) -> Done<bool> {
        let JobFilter { states, queue, kind, key, since, until, text: _ } = self.filter;
        let created_at = Time::from_ms(row.get(at::CREATED_MS)?);
        let state = row::state(row)?;
        let fits = (states.is_empty() || state.is_some_and(|state| states.contains(&state)))
            && since.is_none_or(|since| created_at >= since)
            && until.is_none_or(|until| created_at < until);
        if !fits {
            return Ok(false);
        }
        let named = match queue {
            Some(queue) => text(row, at::QUEUE)? == queue.as_str(),
            None => true,
        } && match kind {
            Some(kind) => text(row, at::KIND)? == kind.as_str(),
            None => true,
        } && match key {
            Some(key) => opt_text(row, at::KEY)? == Some(key.as_str()),
            None => true,
        };
        match &self.text {
            Some(wanted) if named => has_text(row, wanted, bytes),
            _ => Ok(named),
        }
    }
}

/// Whether a job has a text in its id, kind, key or payload.
fn has_text(row: &Row<'_>, wanted: &str, bytes: &mut usize) -> Done<bool> {
    let id = Uuid::from_bytes(row.get(at::ID)?).to_string();
    let payload = text(row, at::PAYLOAD)?;
    *bytes += payload.len();
    Ok(holds(&id, wanted)
        || holds(text(row, at::KIND)?, wanted)
        || opt_text(row, at::KEY)?.is_some_and(|key| holds(key, wanted))
        || holds(payload, wanted))
}

fn holds(field: &str, wanted: &str) -> bool {
    field.to_ascii_lowercase().contains(wanted)
}
