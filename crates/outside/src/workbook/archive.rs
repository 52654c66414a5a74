//! The zip file that a workbook is, opened with care.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::{Limits, WorkbookError};

/// The parts of a workbook. Each is unpacked when it is asked for, and all
/// together never to more than the limit, whatever the directory says.
pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    left: u64,
    max: u64,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, WorkbookError> {
        if bytes.len() as u64 > limits.file_bytes_max {
            return Err(WorkbookError::TooLarge { what: "bytes", max: limits.file_bytes_max });
        }
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|_| WorkbookError::NotAWorkbook("it is not a zip file"))?;
        if zip.len() > limits.parts_max {
            return Err(WorkbookError::TooLarge { what: "parts", max: limits.parts_max as u64 });
        }
        let max = limits.inflated_bytes_max;
        Ok(Self { zip, left: max, max })
    }

    /// A part as text; `None` when it is not there.
    pub(super) fn part(&mut self, name: &str) -> Result<Option<String>, WorkbookError> {
        let too_large = WorkbookError::TooLarge { what: "unpacked bytes", max: self.max };
        let broken = WorkbookError::NotAWorkbook("one of its parts is broken");
        let file = match self.zip.by_name(name) {
            Ok(file) => file,
            Err(zip::result::ZipError::FileNotFound) => return Ok(None),
            Err(_) => return Err(broken),
        };
        // The directory is believed when it says too much, and never when it says little.
        if file.size() > self.left {
            return Err(too_large);
        }
        let mut bytes = Vec::new();
        file.take(self.left.saturating_add(1)).read_to_end(&mut bytes).map_err(|_| broken)?;
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(too_large)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| WorkbookError::NotAWorkbook("one of its parts is not UTF-8"))?;
        Ok(Some(text))
    }
}
