//! The cells of a sheet, as they come.

use std::sync::Arc;

use quick_xml::events::BytesStart;

use super::cell::{Cell, date, position};
use super::parts::{DEPTH_MAX, runs, unescape};
use super::{Limits, Row, WorkbookError};
use crate::xml::{Part, Xml, attribute};

/// What the cells refer to.
pub(super) struct Shared {
    pub(super) strings: Vec<Arc<str>>,
    pub(super) date_formats: Vec<bool>,
    pub(super) since_1904: bool,
}

/// All rows that have a cell with a value.
pub(super) fn rows(text: &str, shared: &Shared, limits: &Limits) -> Result<Vec<Row>, WorkbookError> {
    let mut xml = Xml::new(text.trim_start_matches('\u{feff}'), DEPTH_MAX);
    let mut reader = Reader { shared, limits, rows: Vec::new(), row: 0, column: 0, cells: 0 };
    loop {
        match xml.next()? {
            Part::Open(element) => match element.local_name().as_ref() {
                b"row" => reader.row(&element)?,
                b"c" => reader.cell(&mut xml, &element)?,
                _ => {}
            },
            Part::Over => {
                reader.rows.iter_mut().for_each(Row::sort);
                return Ok(reader.rows);
            }
            Part::Close | Part::Text(_) => {}
        }
    }
}

struct Reader<'a> {
    shared: &'a Shared,
    limits: &'a Limits,
    rows: Vec<Row>,
    /// The row that is being read, from 1.
    row: u32,
    /// The column that comes next, from 0.
    column: u32,
    cells: usize,
}

impl Reader<'_> {
    fn row(&mut self, element: &BytesStart<'_>) -> Result<(), WorkbookError> {
        let named = attribute(element, b"r").and_then(|text| text.parse().ok());
        self.move_to(named.unwrap_or_else(|| self.row.saturating_add(1)))?;
        self.column = 0;
        Ok(())
    }

    fn move_to(&mut self, row: u32) -> Result<(), WorkbookError> {
        if row < self.row {
            return Err(WorkbookError::NotAWorkbook("its rows are out of order"));
        }
        if row > self.limits.rows_max {
            return Err(WorkbookError::TooLarge { what: "rows", max: self.limits.rows_max.into() });
        }
        self.row = row;
        Ok(())
    }

    fn cell(&mut self, xml: &mut Xml<'_>, element: &BytesStart<'_>) -> Result<(), WorkbookError> {
        let named = attribute(element, b"r").and_then(|name| position(&name));
        let (column, row) = named.unwrap_or((self.column, self.row));
        self.move_to(row)?;
        self.cells += 1;
        if self.cells > self.limits.cells_max {
            return Err(WorkbookError::TooLarge { what: "cells", max: self.limits.cells_max as u64 });
        }
        if column >= self.limits.columns_max {
            return Err(WorkbookError::TooLarge { what: "columns", max: self.limits.columns_max.into() });
        }
        self.column = column + 1;
        let Some(cell) = self.value(xml, element)? else { return Ok(()) };
        match self.rows.last_mut() {
            Some(last) if last.number == row => last.cells.push((column, cell)),
            _ => self.rows.push(Row { number: row, cells: vec![(column, cell)] }),
        }
        Ok(())
    }

    fn value(&self, xml: &mut Xml<'_>, element: &BytesStart<'_>) -> Result<Option<Cell>, WorkbookError> {
        let kind = attribute(element, b"t").unwrap_or_default();
        let style = attribute(element, b"s").and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        let (outside, mut value, mut is_formula) = (xml.depth() - 1, None, false);
        while xml.depth() > outside {
            let Part::Open(part) = xml.next()? else { continue };
            match part.local_name().as_ref() {
                // A number or an index has its length, whatever texts may have.
                b"v" => value = Some(xml.text(self.limits.text_bytes_max.max(32))?),
                b"is" => value = Some(runs(xml, self.limits)?),
                // The formula itself; its result is in `v`.
                b"f" => {
                    is_formula = true;
                    xml.text(0)?;
                }
                _ => drop(xml.text(0)?),
            }
        }
        // Only a text can be empty and a result.
        let has_result = value.as_ref().is_some_and(|value| !value.is_empty() || kind == "str");
        if is_formula && !has_result {
            return Ok(Some(Cell::Unknown));
        }
        Ok(value.filter(|value| !value.is_empty()).and_then(|value| self.typed(&kind, style, value)))
    }

    fn typed(&self, kind: &str, style: usize, value: String) -> Option<Cell> {
        match kind {
            "s" => self.shared.strings.get(value.trim().parse::<usize>().ok()?).cloned().map(Cell::Text),
            "inlineStr" => Some(Cell::Text(value.into())),
            "str" => Some(Cell::Text(unescape(&value).into())),
            "b" => Some(Cell::Bool(value.trim() == "1")),
            "e" => Some(Cell::Error(value)),
            "d" => Some(Cell::Date(value)),
            _ => {
                let number: f64 = value.trim().parse().ok()?;
                let is_date = self.shared.date_formats.get(style) == Some(&true);
                let date = is_date.then(|| date(number, self.shared.since_1904)).flatten();
                Some(date.map_or(Cell::Number(number), Cell::Date))
            }
        }
    }
}
