//! Writing a small workbook: one sheet of texts and whole numbers, as an
//! example to be filled in. Neither formats nor formulas.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const TYPES: &str = "http://schemas.openxmlformats.org/package/2006/content-types";
const KIND: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";
const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";

/// The bytes of a workbook with one sheet. Cells that are blank are left out.
pub fn write(sheet: &str, rows: &[&[&str]]) -> Vec<u8> {
    let name = escape(sheet);
    let parts = [
        (
            "[Content_Types].xml",
            format!(
                "<Types xmlns=\"{TYPES}\">\
                 <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
                 <Override PartName=\"/xl/workbook.xml\" ContentType=\"{KIND}.sheet.main+xml\"/>\
                 <Override PartName=\"/xl/worksheets/sheet1.xml\" ContentType=\"{KIND}.worksheet+xml\"/></Types>"
            ),
        ),
        ("_rels/.rels", relation("officeDocument", "xl/workbook.xml")),
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>\
                 <sheet name=\"{name}\" sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>"
            ),
        ),
        ("xl/_rels/workbook.xml.rels", relation("worksheet", "worksheets/sheet1.xml")),
        ("xl/worksheets/sheet1.xml", sheet_xml(rows)),
    ];
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (part, xml) in parts {
        // Memory takes what is written.
        let _ = zip.start_file(part, options);
        let _ = zip.write_all(format!("{DECLARATION}{xml}").as_bytes());
    }
    zip.finish().map(Cursor::into_inner).unwrap_or_default()
}

fn relation(kind: &str, target: &str) -> String {
    format!(
        "<Relationships xmlns=\"{PACKAGE}\"><Relationship Id=\"rId1\" Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/>\
         </Relationships>"
    )
}

fn sheet_xml(rows: &[&[&str]]) -> String {
    let mut xml = format!("<worksheet xmlns=\"{MAIN}\"><sheetData>");
    for (row, cells) in (1..).zip(rows) {
        xml.push_str(&format!("<row r=\"{row}\">"));
        for (column, text) in ('A'..='Z').zip(cells.iter()).filter(|(_, text)| !text.is_empty()) {
            xml.push_str(&cell(&format!("{column}{row}"), text));
        }
        xml.push_str("</row>");
    }
    xml + "</sheetData></worksheet>"
}

fn cell(name: &str, text: &str) -> String {
    if text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("<c r=\"{name}\"><v>{text}</v></c>");
    }
    format!("<c r=\"{name}\" t=\"inlineStr\"><is><t xml:space=\"preserve\">{}</t></is></c>", escape(text))
}

fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Limits, read};
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let rows: [&[&str]; 3] = [&["id", "a & b"], &[], &["7", "", " <c> "]];
        let sheet = read(&write("A \"sheet\"", &rows), &Limits::default()).unwrap();
        assert_eq!(sheet.name, "A \"sheet\"");
        assert_eq!(sheet.rows.len(), 2);
        assert_eq!((sheet.rows[0].text(0).as_ref(), sheet.rows[0].text(1).as_ref()), ("id", "a & b"));
        assert_eq!(sheet.rows[1].cell(0), Some(&Cell::Number(7.0)));
        assert_eq!((sheet.rows[1].number, sheet.rows[1].text(2).as_ref()), (3, "<c>"));
    }
}
