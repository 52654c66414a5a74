//! Workbooks for tests: honest ones, and ones that were built to do harm.

use std::io::{Cursor, Write};

use rust_xlsxwriter::Workbook;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A workbook with one sheet of text cells, as Excel writes it.
pub fn rows<R: AsRef<[S]>, S: AsRef<str>>(rows: &[R]) -> Vec<u8> {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    for (row, cells) in rows.iter().enumerate() {
        for (column, cell) in cells.as_ref().iter().enumerate() {
            if !cell.as_ref().is_empty() {
                sheet
                    .write_string(row as u32, column as u16, cell.as_ref())
                    .expect("a test's cell fits a sheet");
            }
        }
    }
    workbook.save_to_buffer().expect("a test's workbook can be written")
}

/// A workbook from the XML of its parts, which need not be honest. `sheet`
/// is the content of `sheetData`, `strings` that of `sst`, if there is any.
pub fn from_xml(sheet: &str, strings: Option<&str>) -> Vec<u8> {
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let package = "http://schemas.openxmlformats.org/package/2006/relationships";
    let mut parts = vec![
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns=\"{main}\" xmlns:r=\"{office}\"><sheets>\
                 <sheet name=\"One\" sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>"
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            format!(
                "<Relationships xmlns=\"{package}\">\
                 <Relationship Id=\"rId1\" Type=\"{office}/worksheet\" Target=\"worksheets/sheet1.xml\"/>\
                 <Relationship Id=\"rId2\" Type=\"{office}/sharedStrings\" Target=\"sharedStrings.xml\"/>\
                 </Relationships>"
            ),
        ),
        (
            "xl/worksheets/sheet1.xml",
            format!("<worksheet xmlns=\"{main}\"><sheetData>{sheet}</sheetData></worksheet>"),
        ),
    ];
    if let Some(strings) = strings {
        parts.push(("xl/sharedStrings.xml", format!("<sst xmlns=\"{main}\">{strings}</sst>")));
    }
    archive(&parts)
}

/// A zip file with these parts.
pub fn archive<S: AsRef<[u8]>>(parts: &[(&str, S)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in parts {
        zip.start_file(*name, options).expect("memory takes what is written");
        zip.write_all(content.as_ref()).expect("memory takes what is written");
    }
    zip.finish().expect("memory takes what is written").into_inner()
}
