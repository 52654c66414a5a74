//! Workbooks, honest and hostile.

use std::process::Command;

use proptest::prelude::*;
use rust_xlsxwriter::{ExcelDateTime, Format, Formula, Workbook};
use windlass_outside::workbook::{Cell, Limits, Sheet, WorkbookError, read, read_file};
use windlass_standins::xlsx;

fn read_all(bytes: &[u8]) -> Result<Sheet, WorkbookError> {
    read(bytes, &Limits::default())
}

fn texts(sheet: &Sheet) -> Vec<(u32, Vec<(u32, String)>)> {
    let row = |row: &windlass_outside::workbook::Row| {
        row.cells().map(|(at, cell)| (at, cell.text().into_owned())).collect()
    };
    sheet.rows.iter().map(|one| (one.number, row(one))).collect()
}

#[test]
fn every_kind_of_cell() {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet().set_name("Queries").unwrap();
    let (bold, day) = (Format::new().set_bold(), Format::new().set_num_format("yyyy-mm-dd"));
    sheet.write_string(0, 0, " text & <more> ").unwrap();
    sheet.write_number(0, 1, 42).unwrap();
    sheet.write_number(0, 2, 0.5).unwrap();
    sheet.write_boolean(0, 3, true).unwrap();
    sheet.write_formula(0, 4, Formula::new("=A1&\"x\"").set_result("the result")).unwrap();
    sheet.write_rich_string(0, 5, &[(&Format::new(), "rich "), (&bold, "text")]).unwrap();
    sheet.write_datetime_with_format(0, 6, ExcelDateTime::from_ymd(2026, 2, 27).unwrap(), &day).unwrap();
    sheet.write_url(0, 7, "https://example.com/").unwrap();
    sheet.write_string(4, 25, "far").unwrap();
    workbook.add_worksheet().write_string(0, 0, "another sheet").unwrap();
    let sheet = read_all(&workbook.save_to_buffer().unwrap()).unwrap();
    assert_eq!(sheet.name, "Queries");
    let first = &sheet.rows[0];
    let expected = [
        "text & <more>",
        "42",
        "0.5",
        "true",
        "the result",
        "rich text",
        "2026-02-27T00:00:00.000Z",
        "https://example.com/",
    ];
    for (column, expected) in (0..).zip(expected) {
        assert_eq!(first.text(column), expected, "{column}");
    }
    assert_eq!(first.cell(1), Some(&Cell::Number(42.0)));
    assert_eq!((first.text(8).as_ref(), first.cell(8)), ("", None));
    assert_eq!(texts(&sheet)[1], (5, vec![(25, "far".to_owned())]));
}

#[test]
fn cells_without_names_and_odd_values() {
    let sheet = "<row><c t=\"inlineStr\"><is><t>a</t></is></c><c/><c><v>3</v></c></row>\
                 <row r=\"7\"><c r=\"C7\" t=\"e\"><v>#N/A</v></c><c r=\"A7\"><v>5</v></c><c r=\"A7\" t=\"s\"><v>1</v></c>\
                 <c r=\"B7\" t=\"s\"><v>99</v></c><c r=\"D7\"><v>no number</v></c></row>";
    let strings =
        "<si><t>zero</t></si><si><r><t>one_x000D_</t></r><rPh><t>no</t></rPh><r><t> two</t></r></si>";
    let sheet = read_all(&xlsx::from_xml(sheet, Some(strings))).unwrap();
    let text = |text: &str| text.to_owned();
    let expected =
        vec![(1, vec![(0, text("a")), (2, text("3"))]), (7, vec![(0, text("one\r two")), (2, text(""))])];
    assert_eq!(texts(&sheet), expected);
}

#[test]
fn what_is_no_workbook() {
    let not = |bytes: &[u8]| matches!(read_all(bytes), Err(WorkbookError::NotAWorkbook(_)));
    let good = xlsx::rows(&[["id", "x"], ["1", "y"]]);
    assert!(
        not(b"")
            && not(b"id,x\n1,y\n")
            && not(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
            && not(&good[..good.len() / 2])
    );
    assert!(not(&xlsx::archive(&[("word/document.xml", "<x/>")])));
    assert!(not(&xlsx::from_xml("<row></c>", None)));
    let home = tempfile::tempdir().unwrap();
    let error = read_file(&home.path().join("none.xlsx"), &Limits::default()).unwrap_err();
    assert_eq!(error, WorkbookError::Io(std::io::ErrorKind::NotFound));
    std::fs::write(home.path().join("good.xlsx"), &good).unwrap();
    assert_eq!(
        read_file(&home.path().join("good.xlsx"), &Limits::default()).unwrap(),
        read_all(&good).unwrap()
    );
}

fn too_large(bytes: &[u8], limits: &Limits, expected: &str) {
    match read(bytes, limits) {
        Err(WorkbookError::TooLarge { what, .. }) => assert_eq!(what, expected),
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn every_limit_holds() {
    let good = xlsx::rows(&[["long", "b", "c"], ["d", "e", "f"]]);
    let limits = Limits::default();
    too_large(&good, &Limits { file_bytes_max: 100, ..limits }, "bytes");
    too_large(&good, &Limits { parts_max: 3, ..limits }, "parts");
    too_large(&good, &Limits { inflated_bytes_max: 1000, ..limits }, "unpacked bytes");
    too_large(&good, &Limits { rows_max: 1, ..limits }, "rows");
    too_large(&good, &Limits { columns_max: 2, ..limits }, "columns");
    too_large(&good, &Limits { cells_max: 5, ..limits }, "cells");
    too_large(&good, &Limits { strings_max: 5, ..limits }, "shared texts");
    let cut = read(&good, &Limits { text_bytes_max: 1, ..limits }).unwrap();
    assert_eq!(cut.rows[0].text(0), "l");
}

/// The 1.4 kB file that aborts readers which make room for every cell in between.
fn far_cell() -> Vec<u8> {
    xlsx::from_xml(
        "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row><row r=\"1048576\"><c r=\"XFD1048576\"><v>2</v></c></row>",
        None,
    )
}

fn column_name(column: u32) -> String {
    let letter = |number: u32| char::from(b'A' + (number % 26) as u8);
    match column {
        0..26 => letter(column).to_string(),
        26..702 => [letter(column / 26 - 1), letter(column)].iter().collect(),
        _ => [letter((column - 702) / 676), letter((column - 702) / 26), letter(column)].iter().collect(),
    }
}

fn bombs() {
    let far = far_cell();
    assert!(far.len() < 2_000);
    assert_eq!(texts(&read_all(&far).unwrap()).len(), 2);
    let limits = Limits::default();
    too_large(&xlsx::from_xml(&" ".repeat(70_000_000), None), &limits, "unpacked bytes");
    too_large(&xlsx::from_xml("", Some(&" ".repeat(70_000_000))), &limits, "unpacked bytes");
    too_large(&xlsx::from_xml(&"<row><c/><c/></row>".repeat(550_000), None), &limits, "cells");
    too_large(&xlsx::from_xml("", Some(&"<si/>".repeat(600_000))), &limits, "shared texts");
    too_large(&xlsx::from_xml("<row r=\"4294967295\"/>", None), &limits, "rows");
    let deep = xlsx::from_xml(&"<a>".repeat(1_000_000), None);
    assert!(matches!(read_all(&deep), Err(WorkbookError::NotAWorkbook(_))));
    // Cells from right to left, row by row.
    let turned: String =
        (0..16_384).rev().map(|at| format!("<c r=\"{}1\"><v>1</v></c>", column_name(at))).collect();
    assert_eq!(
        read_all(&xlsx::from_xml(&format!("<row>{turned}</row>"), None)).unwrap().rows[0].cells().count(),
        16_384
    );
    // One long text in very many cells: a terabyte, if each had a copy of its own.
    let shared = format!("<si><t>{}</t></si>", "x".repeat(10_000_000));
    let many = "<c t=\"s\"><v>0</v></c>".repeat(15_000);
    let sheet = read_all(&xlsx::from_xml(&format!("<row>{many}</row>"), Some(&shared))).unwrap();
    assert_eq!(sheet.rows[0].cells().count(), 15_000);
    assert_eq!(sheet.rows[0].text(14_999).len(), limits.text_bytes_max);
}

/// Fault 59: bombs give an error or a sheet, within limits.
#[test]
fn fault_59_bombs() {
    bombs();
}

/// Fault 59: the same in 600 MB of address space, most of which the files
/// themselves need while they are built. Whoever asks for more is aborted.
#[test]
fn fault_59_bombs_in_little_memory() {
    let status = Command::new("sh")
        .args(["-c", "ulimit -v 600000 && exec \"$0\" --exact workbook::fault_59_bombs --test-threads 1"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

/// A directory that lies about the size of a part does not help.
#[test]
fn fault_59_a_directory_that_lies() {
    let mut bytes = xlsx::from_xml(&" ".repeat(70_000_000), None);
    let real = 70_000_000_u32;
    let mut lies = 0;
    for at in 0..bytes.len() - 4 {
        let size = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        if size > real && size < real + 1000 {
            bytes[at..at + 4].copy_from_slice(&100_u32.to_le_bytes());
            lies += 1;
        }
    }
    assert!(lies > 0);
    assert!(read_all(&bytes).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Fault 59: whatever is changed in a file, reading it ends without a panic.
    #[test]
    fn fault_59_changed_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = xlsx::rows(&[["id", "and_keywords"], ["1", "fire"], ["2", "recall"]]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read_all(&bytes);
    }

    /// Fault 59: whatever XML a sheet is, reading it ends without a panic.
    #[test]
    fn fault_59_odd_sheets(parts in prop::collection::vec(
        prop::sample::select(vec![
            "<row>", "</row>", "<row r=\"3\">", "<c>", "</c>", "<c r=\"B2\">", "<c r=\"ZZZ9\" t=\"s\">", "<v>", "</v>",
            "<v>1</v>", "<is>", "</is>", "<t>x</t>", "<f>A1</f>", "&amp;", "&x;", "text", "<![CDATA[x]]>", "<!-- x -->",
        ]),
        0..40,
    )) {
        let _ = read_all(&xlsx::from_xml(&parts.concat(), Some("<si><t>a</t></si>")));
    }
}

/// Programs that do not calculate store a formula without its result: that is no empty cell.
#[test]
fn a_formula_without_a_result_is_seen() {
    let sheet = read_all(&xlsx::from_xml(
        "<row r=\"1\"><c r=\"A1\"><f>B1&amp;\"x\"</f></c><c r=\"B1\"><f>1+1</f><v/></c><c r=\"C1\"><f>1+1</f><v>2</v></c>\
         <c r=\"D1\" t=\"str\"><f>\"\"</f><v></v></c><c r=\"E1\" t=\"e\"><f>NA()</f><v>#N/A</v></c></row>",
        None,
    ))
    .unwrap();
    let trouble: Vec<Option<&str>> =
        (0..5).map(|column| sheet.rows[0].cell(column).and_then(Cell::trouble)).collect();
    let without = Some("formula_without_value");
    assert_eq!(trouble, [without, without, None, None, Some("formula_error")]);
    assert_eq!((sheet.rows[0].text(0).as_ref(), sheet.rows[0].text(2).as_ref()), ("", "2"));
}
