//! What contradicts itself, looked for in bites: first by the numbers of jobs, with their runs and steps, then table by
//! table and a few pages at a time. What one row must hold by itself, and what is unique, the schema sees to.

use tokio_postgres::types::Type;
use windlass_core::audit::{AuditBite, AuditFrom, FINDINGS_MAX};

use crate::error::Fault;
use crate::link::{Link, Param};
use crate::store::PostgresStore;

/// How many numbers of jobs one bite takes.
const NUMBERS: u64 = 20_000;

/// Each bite reads its jobs once, in the order of their numbers, and joins what belongs to them by hash.
const NUMBERS_WITHOUT: [&str; 4] = ["enable_seqscan", "enable_bitmapscan", "enable_nestloop", "jit"];

/// The rows of a bite are looked up one by one; a plan for all of a table would read all of it for each bite.
const PAGES_WITHOUT: [&str; 6] =
    ["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_bitmapscan", "enable_material", "jit"];

/// A table, what is asked of its rows, and how many of its pages one bite takes.
struct Part {
    table: &'static str,
    sql: &'static str,
    pages: u64,
}

/// The parts after the first, which is that of the numbers.
const PARTS: [Part; 6] = [
    Part { table: "ready", sql: include_str!("../sql/audit/ready.sql"), pages: 256 },
    Part { table: "delayed", sql: include_str!("../sql/audit/delayed.sql"), pages: 128 },
    Part { table: "waiting", sql: include_str!("../sql/audit/waiting.sql"), pages: 256 },
    Part { table: "keys", sql: include_str!("../sql/audit/keys.sql"), pages: 128 },
    Part { table: "grants", sql: include_str!("../sql/audit/grants.sql"), pages: 16 },
    // A row of these may name a thousand jobs, and lies partly elsewhere then.
    Part { table: "ended", sql: include_str!("../sql/audit/ended.sql"), pages: 1 },
];

/// About as many rows as a page has: how far an audit is, is told in rows.
const ROWS_OF_A_PAGE: u64 = 50;

impl PostgresStore {
    pub(crate) async fn audit_once(&self, from: AuditFrom) -> Result<AuditBite, Fault> {
        let link = self.link().await?;
        let extent = Extent::look(&link, from).await?;
        let of = extent.of();
        if let (0, Some(first)) = (from.part, extent.first) {
            let end = first.saturating_add(NUMBERS);
            let range: [Param<'_>; 2] = [(&(first as i64), Type::INT8), (&(end as i64), Type::INT8)];
            let sql = include_str!("../sql/audit/numbers.sql");
            let findings = bite(&link, &NUMBERS_WITHOUT, sql, &range).await?;
            let done = end.min(extent.last + 1);
            return Ok(AuditBite { findings, next: Some(AuditFrom { part: 0, at: end }), done, of });
        }
        // The first part with pages that were not looked at; after the last, what was counted.
        let mut at = if from.part == 0 { AuditFrom { part: 1, at: 0 } } else { from };
        let pages_of = |part: u32| extent.pages.get(part as usize - 1);
        while pages_of(at.part).is_some_and(|pages| at.at >= *pages) {
            at = AuditFrom { part: at.part.saturating_add(1), at: 0 };
        }
        let Some(part) = PARTS.get(at.part as usize - 1) else {
            let rows = link.rows(include_str!("../sql/audit/counts.sql"), &[]).await?;
            return Ok(AuditBite { findings: sentences(&rows)?, next: None, done: of, of });
        };
        let end = at.at.saturating_add(part.pages);
        let (low, high) = (format!("({},0)", at.at), format!("({end},0)"));
        let params: [Param<'_>; 2] = [(&low, Type::TEXT), (&high, Type::TEXT)];
        let findings = bite(&link, &PAGES_WITHOUT, part.sql, &params).await?;
        let done = extent.done(at.part, end);
        Ok(AuditBite { findings, next: Some(AuditFrom { part: at.part, at: end }), done, of })
    }
}

/// How much there is to look at.
struct Extent {
    /// The first number that was not looked at; none when all were.
    first: Option<u64>,
    /// The last number that is there.
    last: u64,
    /// Of the other parts.
    pages: Vec<u64>,
}

impl Extent {
    async fn look(link: &Link, from: AuditFrom) -> Result<Self, Fault> {
        let at = i64::try_from(from.at).unwrap_or(i64::MAX);
        let row = link.row(include_str!("../sql/audit/first.sql"), &[(&at, Type::INT8)]).await?;
        let number =
            |at| Ok::<_, Fault>(row.try_get::<_, Option<i64>>(at)?.map(|number| number.max(0) as u64));
        let tables: Vec<&str> = PARTS.iter().map(|part| part.table).collect();
        let rows = link.rows(include_str!("../sql/audit/pages.sql"), &[(&tables, Type::TEXT_ARRAY)]).await?;
        let pages =
            rows.iter().map(|row| Ok(row.try_get::<_, i64>(0)? as u64)).collect::<Result<_, Fault>>()?;
        Ok(Self { first: number(0)?, last: number(1)?.unwrap_or(0), pages })
    }

    /// All of it; what was counted is one more.
    fn of(&self) -> u64 {
        self.last + 1 + self.pages.iter().sum::<u64>() * ROWS_OF_A_PAGE + 1
    }

    /// How much was looked at once a part was, up to this page.
    fn done(&self, part: u32, end: u64) -> u64 {
        let part = part as usize - 1;
        let before: u64 = self.pages.iter().take(part).sum();
        self.last + 1 + (before + end.min(self.pages[part])) * ROWS_OF_A_PAGE
    }
}

/// Asks for the breaches of a bite, in a transaction that plans without these.
async fn bite(link: &Link, without: &[&str], sql: &str, params: &[Param<'_>]) -> Result<Vec<String>, Fault> {
    link.begin().await?;
    link.rows(include_str!("../sql/audit/plan.sql"), &[(&without, Type::TEXT_ARRAY)]).await?;
    let rows = link.rows(sql, params).await?;
    link.commit().await?;
    sentences(&rows)
}

fn sentences(rows: &[tokio_postgres::Row]) -> Result<Vec<String>, Fault> {
    rows.iter().take(FINDINGS_MAX).map(|row| Ok(row.try_get(0)?)).collect()
}
