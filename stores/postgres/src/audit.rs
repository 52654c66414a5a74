//! What contradicts itself, looked for table by table and a few pages at a time. What one row must hold by itself, and what is
//! unique, the schema sees to.

use tokio_postgres::types::Type;
use windlass_core::audit::{AuditBite, AuditFrom, FINDINGS_MAX};

use crate::error::Fault;
use crate::link::Param;
use crate::store::PostgresStore;

/// A table, what is asked of its rows, and how many of its pages one bite takes.
struct Part {
    table: &'static str,
    sql: &'static str,
    pages: u64,
}

const PARTS: [Part; 9] = [
    Part { table: "jobs", sql: include_str!("../sql/audit/jobs.sql"), pages: 256 },
    Part { table: "ready", sql: include_str!("../sql/audit/ready.sql"), pages: 256 },
    Part { table: "delayed", sql: include_str!("../sql/audit/delayed.sql"), pages: 128 },
    Part { table: "waiting", sql: include_str!("../sql/audit/waiting.sql"), pages: 256 },
    Part { table: "keys", sql: include_str!("../sql/audit/keys.sql"), pages: 128 },
    // A row of these two may name a thousand jobs, and lies partly elsewhere then.
    Part { table: "claims", sql: include_str!("../sql/audit/claims.sql"), pages: 4 },
    Part { table: "ended", sql: include_str!("../sql/audit/ended.sql"), pages: 16 },
    Part { table: "runs", sql: include_str!("../sql/audit/runs.sql"), pages: 256 },
    Part { table: "steps", sql: include_str!("../sql/audit/steps.sql"), pages: 256 },
];

impl PostgresStore {
    pub(crate) async fn audit_once(&self, from: AuditFrom) -> Result<AuditBite, Fault> {
        let link = self.link().await?;
        let names: Vec<&str> = PARTS.iter().map(|part| part.table).collect();
        let rows = link.rows(include_str!("../sql/audit/pages.sql"), &[(&names, Type::TEXT_ARRAY)]).await?;
        let sizes =
            rows.iter().map(|row| Ok(row.try_get::<_, i64>(0)? as u64)).collect::<Result<Vec<_>, Fault>>()?;
        let of = sizes.iter().sum::<u64>() + 1;
        let before = |part: usize| sizes.iter().take(part).sum::<u64>();
        // The first part with pages that were not looked at; after the last, what was counted.
        let mut at = from;
        while sizes.get(at.part as usize).is_some_and(|pages| at.at >= *pages) {
            at = AuditFrom { part: at.part.saturating_add(1), at: 0 };
        }
        let Some(part) = PARTS.get(at.part as usize) else {
            let rows = link.rows(include_str!("../sql/audit/counts.sql"), &[]).await?;
            return Ok(AuditBite { findings: sentences(&rows)?, next: None, done: of, of });
        };
        let end = at.at.saturating_add(part.pages);
        let (low, high) = (format!("({},0)", at.at), format!("({end},0)"));
        let params: [Param<'_>; 2] = [(&low, Type::TEXT), (&high, Type::TEXT)];
        // The rows of a bite are looked up one by one; a plan for all of a table would read all of it for each bite.
        link.begin().await?;
        link.rows(include_str!("../sql/audit/plan.sql"), &[]).await?;
        let rows = link.rows(part.sql, &params).await?;
        link.commit().await?;
        let done = before(at.part as usize) + end.min(sizes[at.part as usize]);
        let next = Some(AuditFrom { part: at.part, at: end });
        Ok(AuditBite { findings: sentences(&rows)?, next, done: done.min(of), of })
    }
}

fn sentences(rows: &[tokio_postgres::Row]) -> Result<Vec<String>, Fault> {
    rows.iter().take(FINDINGS_MAX).map(|row| Ok(row.try_get(0)?)).collect()
}
