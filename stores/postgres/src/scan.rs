//! Pages of a shelf, each read by the one index that has its order.

use tokio_postgres::types::{ToSql, Type};
use windlass_core::id::{Label, ShelfName};
use windlass_core::record::{Order, RecordPage, SCAN_BYTES_MAX, Scan, prefix_end};

use crate::error::Fault;
use crate::link::Param;
use crate::records::read_record;
use crate::store::PostgresStore;

/// What a statement of [`statement`] is given. Not each of them names all of it.
const TYPES: [Type; 10] = [
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::BOOL,
];

impl PostgresStore {
    /// A page of a scan that was checked. Mirrors `Book::scan_records`.
    pub(crate) async fn scan_once(&self, scan: &Scan) -> Result<RecordPage, Fault> {
        let after = scan.after.as_ref();
        let label = scan.label.as_ref().map(Label::as_str);
        let values: [&(dyn ToSql + Sync); TYPES.len()] = [
            &scan.shelf.as_str(),
            &after.map(|after| after.at),
            &after.map(|after| after.key.as_str()),
            &self.given_now(),
            &(i64::from(scan.limit) + 1),
            &(SCAN_BYTES_MAX as i64),
            &label,
            &scan.prefix,
            &prefix_end(&scan.prefix),
            &true,
        ];
        let params: Vec<Param<'_>> = values.into_iter().zip(TYPES).collect();
        let rows = self.link().await?.rows(&statement(scan), &params).await?;
        let mut page = RecordPage::default();
        for row in &rows {
            let record = if page.records.len() < scan.limit as usize { read_record(row)? } else { None };
            let Some(record) = record else {
                page.next = page.records.last().map(|last| last.cursor(scan.order));
                break;
            };
            page.records.push(record);
        }
        Ok(page)
    }

    /// How many records have keys that begin so, by label.
    pub(crate) async fn count_once(
        &self,
        shelf: &ShelfName,
        prefix: &str,
    ) -> Result<Vec<(Option<Label>, u64)>, Fault> {
        let params: [Param<'_>; 4] = [
            (&shelf.as_str(), Type::TEXT),
            (&prefix, Type::TEXT),
            (&prefix_end(prefix), Type::TEXT),
            (&self.given_now(), Type::INT8),
        ];
        let rows = self.link().await?.rows(sql!("record", "count"), &params).await?;
        let mut counts = Vec::with_capacity(rows.len());
        for row in &rows {
            let label: Option<&str> = row.try_get(0)?;
            counts.push((label.map(Label::new).transpose()?, row.try_get::<_, i64>(1)?.unsigned_abs()));
        }
        Ok(counts)
    }
}

/// The statement of a scan: few enough that each stays prepared. A bound that is not there is left out of it, so
/// that the planner need not guess.
fn statement(scan: &Scan) -> String {
    let Scan { order, descending, prefix, label, after, .. } = scan;
    let beyond = if *descending { "<" } else { ">" };
    let (cursor, columns): (String, &[&str]) = match order {
        Order::Key => (format!("r.key {beyond} $3"), &["r.key"]),
        Order::Sort => (format!("(r.sort, r.key) {beyond} ($2, $3)"), &["r.sort", "r.key"]),
        Order::Rev => (format!("r.rev {beyond} $2"), &["r.rev"]),
    };
    let mut range = Vec::new();
    if after.is_some() {
        range.push(cursor);
    }
    if !prefix.is_empty() {
        range.push("r.key >= $8".to_owned());
        range.extend(prefix_end(prefix).map(|_| "r.key < $9".to_owned()));
    }
    if range.is_empty() {
        range.push("$10".to_owned());
    }
    let way = if *descending { " DESC" } else { "" };
    let order: Vec<String> = columns.iter().map(|column| format!("{column}{way}")).collect();
    sql!("record", "scan")
        .replace("{range}", &range.join(" AND "))
        .replace("{label}", if label.is_some() { "r.label = $7" } else { "$10" })
        .replace("{order}", &order.join(", "))
}
