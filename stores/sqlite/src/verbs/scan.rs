//! Pages of a shelf, each read by the one index that has its order.

use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, ToSql, params};
use windlass_core::id::{Label, ShelfName};
use windlass_core::record::{Order, RecordPage, SCAN_BYTES_MAX, Scan, ScanCursor, prefix_end};
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::row::opt_name;
use crate::verbs::records;

/// A page of a scan that was checked. Mirrors `Book::scan_records`.
pub fn scan(conn: &Connection, scan: &Scan, now: Time) -> Done<RecordPage> {
    let mut select = conn.prepare_cached(&statement(scan))?;
    let (from, to) = bounds(scan);
    let label = scan.label.as_ref().map(Label::as_str);
    let limit = i64::from(scan.limit) + 1;
    let mut rows = select.query(params![scan.shelf.as_str(), from, to, label, now.ms(), limit])?;
    let (mut page, mut bytes) = (RecordPage::default(), 0);
    while let Some(row) = rows.next()? {
        let record = records::of_row(row)?;
        bytes += record.value.as_str().len();
        if page.records.len() == scan.limit as usize || (bytes > SCAN_BYTES_MAX && !page.records.is_empty()) {
            page.next = page.records.last().map(|last| last.cursor(scan.order));
            break;
        }
        page.records.push(record);
    }
    Ok(page)
}

/// How many records have keys that begin so, by label.
pub fn count(
    conn: &Connection,
    shelf: &ShelfName,
    prefix: &str,
    now: Time,
) -> Done<Vec<(Option<Label>, u64)>> {
    let mut select = conn.prepare_cached(sql!("record", "count"))?;
    let end = prefix_end(prefix).map_or(Bound::Behind, Bound::Key);
    let mut rows = select.query(params![shelf.as_str(), prefix, end, now.ms()])?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next()? {
        counts.push((opt_name(row, 0)?, row.get::<_, i64>(1)?.unsigned_abs()));
    }
    Ok(counts)
}

/// The statement of a scan: twelve in all, each stays prepared.
fn statement(scan: &Scan) -> String {
    let Scan { order, descending, label, .. } = scan;
    let (name, range, order) = match (order, descending) {
        (Order::Key, false) => ("key", "key >= ?2 AND key < ?3", "key"),
        (Order::Key, true) => ("key", "key >= ?2 AND key < ?3", "key DESC"),
        (Order::Sort, false) => ("sort", "(sort, key) > (?2, ?3)", "sort, key"),
        (Order::Sort, true) => ("sort", "(sort, key) < (?2, ?3)", "sort DESC, key DESC"),
        (Order::Rev, false) => ("rev", "rev > ?2", "rev"),
        (Order::Rev, true) => ("rev", "rev < ?2", "rev DESC"),
    };
    let (index, label) = match label {
        Some(_) => (format!("records_label_{name}"), "label = ?4"),
        None => (format!("records_{name}"), "?4 IS NULL"),
    };
    sql!("record", "scan")
        .replace("{index}", &index)
        .replace("{range}", range)
        .replace("{label}", label)
        .replace("{order}", order)
}

/// What the range of a statement is bound to.
enum Bound {
    Number(i64),
    Key(String),
    /// Behind every key.
    Behind,
}

impl ToSql for Bound {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Number(number) => ToSqlOutput::from(*number),
            Self::Key(key) => ToSqlOutput::from(key.as_str()),
            // SQLite sorts blobs behind texts.
            Self::Behind => ToSqlOutput::Owned(Value::Blob(Vec::new())),
        })
    }
}

/// From where to where a scan goes, in the terms of its order. An index is searched by one lower and one upper
/// bound: each is the tighter of the prefix and the cursor.
fn bounds(scan: &Scan) -> (Bound, Bound) {
    let Scan { order, descending, prefix, after, .. } = scan;
    match (order, after) {
        (Order::Key, after) => key_bounds(prefix, after.as_ref(), *descending),
        (_, Some(ScanCursor { at, key })) => (Bound::Number(*at), Bound::Key(key.clone())),
        (_, None) if *descending => (Bound::Number(i64::MAX), Bound::Behind),
        // No revision is 0 or lower, and no key is empty.
        (_, None) => (Bound::Number(i64::MIN), Bound::Key(String::new())),
    }
}

fn key_bounds(prefix: &str, after: Option<&ScanCursor>, descending: bool) -> (Bound, Bound) {
    let (mut from, mut to) = (prefix.to_owned(), prefix_end(prefix));
    if let Some(ScanCursor { at: _, key }) = after {
        if descending {
            to = Some(to.map_or_else(|| key.clone(), |to| to.min(key.clone())));
        } else {
            // The next key that there could be: none has a NUL.
            from = from.max(format!("{key}\0"));
        }
    }
    (Bound::Key(from), to.map_or(Bound::Behind, Bound::Key))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Each scan is a search of one index that has its order: nothing is sorted, and no table is read through.
    #[test]
    fn every_scan_is_one_search() {
        let mut conn = Connection::open_in_memory().expect("a file in memory");
        crate::disk::migrate::run(&mut conn, Path::new("memory")).expect("the schema");
        for order in [Order::Key, Order::Sort, Order::Rev] {
            for descending in [false, true] {
                for label in [None, Some(Label::new("x").expect("a label"))] {
                    let shelf = ShelfName::new("s").expect("a name");
                    let scan = Scan { order, descending, label, ..Scan::of(shelf) };
                    let equal = 1 + usize::from(scan.label.is_some());
                    let mut plan =
                        conn.prepare(&format!("EXPLAIN QUERY PLAN {}", statement(&scan))).expect("a plan");
                    let said: Vec<String> = plan
                        .query_map(params!["s", 0, "", Option::<&str>::None, 0, 1], |row| row.get(3))
                        .expect("a plan")
                        .collect::<Result<_, _>>()
                        .expect("a plan");
                    assert_eq!(said.len(), 1, "{said:?}");
                    assert!(said[0].starts_with("SEARCH records USING INDEX records_"), "{said:?}");
                    let conditions = said[0].matches(['=', '>', '<']).count();
                    assert!(conditions > equal, "the cursor of {scan:?} is not searched by: {said:?}");
                }
            }
        }
    }
}
