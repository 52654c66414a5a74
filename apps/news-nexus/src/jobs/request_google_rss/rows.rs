//! The rows of the workbook with the searches.

use std::path::Path;

use windlass_outside::google_rss::{Cells, Query};
use windlass_outside::workbook::{self, Limits, Row, Sheet, WorkbookError};

/// The columns, by the names in the first row.
pub(crate) const HEADERS: [&str; 6] =
    ["id", "and_keywords", "and_exact_phrases", "or_keywords", "or_exact_phrases", "time_range"];

/// One search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    /// What the workbook calls it, when it does.
    pub id: Option<u64>,
    /// Its row in the sheet.
    pub row: u32,
    /// What to ask; nothing when the row has no terms.
    pub query: Option<Query>,
    /// A cell that has something in it and no value: without it the row would ask for something else.
    pub trouble: Option<Trouble>,
}

/// What is wrong with a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trouble {
    pub column: &'static str,
    /// A word for programs.
    pub reason: &'static str,
}

/// Why there are no searches.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RowsError {
    #[error("the query spreadsheet: {0}")]
    Workbook(#[from] WorkbookError),
    #[error(
        "the query spreadsheet has no column {0}; its first row must name id, and_keywords, and_exact_phrases, or_keywords, or_exact_phrases and time_range"
    )]
    Missing(String),
}

/// The searches of a workbook, from top to bottom. Rows that are blank are none.
pub(super) fn read(path: &Path) -> Result<Vec<Search>, RowsError> {
    searches(&workbook::read_file(path, &Limits::default())?)
}

fn searches(sheet: &Sheet) -> Result<Vec<Search>, RowsError> {
    let columns = columns(sheet)?;
    let rows = sheet.rows.iter().filter(|row| row.number > 1);
    Ok(rows.filter_map(|row| search(row, &columns)).collect())
}

fn columns(sheet: &Sheet) -> Result<[u32; 6], RowsError> {
    let mut columns = [None; 6];
    if let Some(head) = sheet.rows.first().filter(|row| row.number == 1) {
        for (column, cell) in head.cells() {
            let name = cell.text().trim().to_lowercase();
            if let Some(at) = HEADERS.iter().position(|header| *header == name) {
                // Of two columns with one name the last counts.
                columns[at] = Some(column);
            }
        }
    }
    let missing: Vec<&str> =
        HEADERS.iter().zip(&columns).filter(|(_, column)| column.is_none()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Err(RowsError::Missing(missing.join(", ")));
    }
    Ok(columns.map(Option::unwrap_or_default))
}

fn search(row: &Row, columns: &[u32; 6]) -> Option<Search> {
    let texts = columns.map(|column| row.text(column));
    let [id, and_keywords, and_exact_phrases, or_keywords, or_exact_phrases, time_range] =
        std::array::from_fn(|at| texts[at].trim());
    let trouble = HEADERS.iter().zip(columns).find_map(|(name, column)| {
        let reason = row.cell(*column)?.trouble()?;
        Some(Trouble { column: name, reason })
    });
    if trouble.is_none() && texts.iter().all(|text| text.trim().is_empty()) {
        return None;
    }
    let cells = Cells { and_keywords, and_exact_phrases, or_keywords, or_exact_phrases, time_range };
    Some(Search { id: leading_number(id), row: row.number, query: Query::build(cells), trouble })
}

/// The digits that a text begins with.
fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_leniently() {
        for (text, id) in
            [("7", Some(7)), ("7.0", Some(7)), ("12 b", Some(12)), ("b", None), ("", None), ("-1", None)]
        {
            assert_eq!(leading_number(text), id, "{text}");
        }
    }
}
