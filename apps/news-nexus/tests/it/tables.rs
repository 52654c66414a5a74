//! The database as the other programs of the system see it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

const SCHEMA: &str = include_str!("../../../../apps/news-nexus/sql/schema.sql");
const NOW: &str = "2026-01-01 00:00:00.000 +00:00";
/// The prompt of these tests.
pub const PROMPT: &str = "Where? Title: {articleTitle} Content: {articleContent}";

pub struct Tables(pub Connection);

impl Tables {
    pub fn open(path: &Path) -> Self {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let connection = Connection::open(path).expect("a database");
        connection.busy_timeout(Duration::from_secs(30)).expect("a timeout");
        connection.execute_batch(SCHEMA).expect("the tables");
        Self(connection)
    }

    /// What others must have put there: who categorizes, the prompt, some states.
    pub fn seed(&self) {
        let now = NOW;
        for (id, name) in [(1, "NewsNexusSemanticScorer02"), (2, "NewsNexusLlmStateAssigner01")] {
            let sql = "INSERT INTO ArtificialIntelligences (id, name, createdAt, updatedAt) VALUES (?1, ?2, ?3, ?3)";
            self.0.execute(sql, params![id, name, now]).expect("a row");
            let sql = "INSERT INTO EntityWhoCategorizedArticles (id, artificialIntelligenceId, createdAt, updatedAt)
                       VALUES (?1, ?2, ?3, ?3)";
            self.0.execute(sql, params![id + 10, id, now]).expect("a row");
        }
        self.0.execute("INSERT INTO Prompts (promptInMarkdown, createdAt, updatedAt) VALUES ('old {articleTitle}', ?1, ?1)", [now]).expect("a row");
        self.0
            .execute(
                "INSERT INTO Prompts (promptInMarkdown, createdAt, updatedAt) VALUES (?1, ?2, ?2)",
                [PROMPT, now],
            )
            .expect("a row");
        for (name, abbreviation) in [("Texas", "TX"), ("New York", "NY")] {
            let sql = "INSERT INTO States (name, abbreviation, createdAt, updatedAt) VALUES (?1, ?2, ?3, ?3)";
            self.0.execute(sql, params![name, abbreviation, now]).expect("a row");
        }
    }

    /// An article of today.
    pub fn article(&self, id: i64, title: &str, description: Option<&str>) {
        let sql = "INSERT INTO Articles (id, title, description, url, publishedDate, createdAt, updatedAt)
                   VALUES (?1, ?2, ?3, 'https://x.example/' || ?1, date('now'), ?4, ?4)";
        self.0.execute(sql, params![id, title, description, NOW]).expect("a row");
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.0.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// All rows, each as its values with `|` between them.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        let mut statement = self.0.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let text = |at| -> rusqlite::Result<String> {
                Ok(match row.get_ref(at)? {
                    rusqlite::types::ValueRef::Null => "null".to_owned(),
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    rusqlite::types::ValueRef::Real(number) => format!("{number:.4}"),
                    rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    rusqlite::types::ValueRef::Blob(_) => "blob".to_owned(),
                })
            };
            Ok((0..columns).map(text).collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
        });
        rows.expect("rows").collect::<Result<_, _>>().expect("rows")
    }
}
