//! Reading workbooks (`.xlsx`) that anybody may have written.
//!
//! A workbook is a zip file of XML, and both can lie: a file of a kilobyte can
//! name a cell so far away that whoever makes room for all cells before it is
//! killed. So this reads cells as they come, keeps those that are there, and
//! has a limit for everything. It needs no child process: what it allocates is
//! bounded by the limits, and it has no recursion.
//!
//! It reads the first sheet only, and neither formulas nor formats: the value
//! of a formula is the result that was stored with it.

mod archive;
mod cell;
mod parts;
mod sheet;
mod write;

use std::io::Read;
use std::path::Path;

pub use cell::Cell;
pub use write::write;

use crate::xml::XmlError;
use archive::Archive;
use parts::Relation;
use sheet::Shared;

/// The limits of a workbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of the file.
    pub file_bytes_max: u64,
    /// The number of files in the zip file.
    pub parts_max: usize,
    /// What all parts that are read may unpack to.
    pub inflated_bytes_max: u64,
    /// The highest row number.
    pub rows_max: u32,
    /// The number of columns.
    pub columns_max: u32,
    /// The number of cells that are there, empty ones included.
    pub cells_max: usize,
    /// The number of shared texts.
    pub strings_max: usize,
    /// The length of one text; what is longer is cut.
    pub text_bytes_max: usize,
}

impl Default for Limits {
    /// 20 MB, 64 MB unpacked, Excel's own limits of rows and columns, a million cells.
    fn default() -> Self {
        Self {
            file_bytes_max: 20_000_000,
            parts_max: 1_000,
            inflated_bytes_max: 64_000_000,
            rows_max: 1_048_576,
            columns_max: 16_384,
            cells_max: 1_000_000,
            strings_max: 500_000,
            text_bytes_max: 131_072,
        }
    }
}

/// Why a workbook was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkbookError {
    /// The file cannot be opened or read.
    #[error("the workbook cannot be read: {0}; check that the file is there and may be read")]
    Io(std::io::ErrorKind),
    /// The file is something else, or broken.
    #[error("the file is not a workbook that can be read: {0}; save it again as .xlsx")]
    NotAWorkbook(&'static str),
    /// The file has too much of something.
    #[error("the workbook has more than {max} {what}; make it smaller")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: u64,
    },
}

impl WorkbookError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "workbook_io",
            Self::NotAWorkbook(_) => "not_a_workbook",
            Self::TooLarge { .. } => "workbook_too_large",
        }
    }
}

impl From<XmlError> for WorkbookError {
    fn from(error: XmlError) -> Self {
        Self::NotAWorkbook(match error {
            XmlError::Malformed => "one of its parts is not well-formed XML",
            XmlError::TooDeep => "one of its parts is nested too deeply",
        })
    }
}

/// A sheet: those of its rows that have a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Its name.
    pub name: String,
    /// Its rows, by rising number.
    pub rows: Vec<Row>,
}

/// A row: those of its cells that have a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number, from 1.
    pub number: u32,
    cells: Vec<(u32, Cell)>,
}

impl Row {
    /// A cell by its column, from 0.
    pub fn cell(&self, column: u32) -> Option<&Cell> {
        let at = self.cells.binary_search_by_key(&column, |(column, _)| *column).ok()?;
        Some(&self.cells[at].1)
    }

    /// The text of a cell; empty when it has none.
    pub fn text(&self, column: u32) -> std::borrow::Cow<'_, str> {
        self.cell(column).map_or("".into(), Cell::text)
    }

    /// All cells with their columns, from left to right.
    pub fn cells(&self) -> impl Iterator<Item = (u32, &Cell)> {
        self.cells.iter().map(|(column, cell)| (*column, cell))
    }

    /// Brings cells into their order; of two for one column the last one
    /// counts. Once for the whole row, and not cell by cell: a row that is
    /// written backwards would cost the square of its length.
    fn sort(&mut self) {
        if self.cells.is_sorted_by(|one, next| one.0 < next.0) {
            return;
        }
        self.cells.reverse();
        self.cells.sort_by_key(|(column, _)| *column);
        self.cells.dedup_by_key(|(column, _)| *column);
    }
}

/// Reads the first sheet of a file.
pub fn read_file(path: &Path, limits: &Limits) -> Result<Sheet, WorkbookError> {
    let open = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(limits.file_bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read(&open().map_err(|error| WorkbookError::Io(error.kind()))?, limits)
}

/// Reads the first sheet of a workbook in memory.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Sheet, WorkbookError> {
    let mut archive = Archive::open(bytes, limits)?;
    let main = match archive.part("_rels/.rels")? {
        Some(text) => target(&parts::relations(&text, "")?, "officeDocument"),
        None => None,
    };
    let main = main.unwrap_or_else(|| "xl/workbook.xml".to_owned());
    let missing = WorkbookError::NotAWorkbook("it has no list of sheets");
    let contents = parts::contents(&archive.part(&main)?.ok_or(missing)?)?;
    let (folder, file) = main.rsplit_once('/').map_or(("", main.as_str()), |(folder, file)| (folder, file));
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let relations = archive.part(&format!("{folder}_rels/{file}.rels"))?.unwrap_or_default();
    let relations = parts::relations(&relations, &folder)?;
    let (name, part) = first_sheet(&contents.sheets, &relations)?;
    let mut load = |kind| target(&relations, kind).map_or(Ok(None), |part| archive.part(&part));
    let strings = load("sharedStrings")?.map_or(Ok(Vec::new()), |text| parts::strings(&text, limits))?;
    let date_formats = load("styles")?.map_or(Ok(Vec::new()), |text| parts::date_formats(&text))?;
    let shared = Shared { strings, date_formats, since_1904: contents.since_1904 };
    let sheet = archive.part(&part)?.ok_or(WorkbookError::NotAWorkbook("its first sheet is missing"))?;
    Ok(Sheet { name, rows: sheet::rows(&sheet, &shared, limits)? })
}

fn target(relations: &[Relation], kind: &str) -> Option<String> {
    relations.iter().find(|relation| relation.kind == kind).map(|relation| relation.target.clone())
}

/// Name and part of the first sheet that has cells: a chart is no such sheet.
fn first_sheet(
    sheets: &[(String, String)],
    relations: &[Relation],
) -> Result<(String, String), WorkbookError> {
    let found = sheets.iter().find_map(|(name, id)| {
        let relation =
            relations.iter().find(|relation| relation.id == *id && relation.kind == "worksheet")?;
        Some((name.clone(), relation.target.clone()))
    });
    found.ok_or(WorkbookError::NotAWorkbook("it has no sheet"))
}
