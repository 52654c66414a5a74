//! CSV, as spreadsheets read and write it.

/// Rows of cells.
pub type Rows = Vec<Vec<String>>;

/// What a spreadsheet would take for a formula.
const FORMULAS: [char; 5] = ['=', '+', '-', '@', '\t'];

/// A row as a line. Text that a spreadsheet would run is marked with an apostrophe.
pub fn line(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| written(cell)).collect();
    cells.join(",")
}

fn written(cell: &str) -> String {
    let is_number = cell.parse::<f64>().is_ok();
    let guarded = match cell.starts_with(FORMULAS) && !is_number {
        true => format!("'{cell}"),
        false => cell.to_owned(),
    };
    if guarded.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", guarded.replace('"', "\"\""));
    }
    guarded
}

/// The rows of a file; which line is wrong, when one is.
pub fn read(text: &str) -> Result<Rows, String> {
    let text = text.trim_start_matches('\u{feff}');
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut line, mut letters) = (false, 1, text.chars().peekable());
    while let Some(c) = letters.next() {
        line += usize::from(c == '\n');
        match c {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if cell.is_empty() => is_quoted = true,
            c if is_quoted => cell.push(c),
            '"' => return Err(format!("line {line} has a quotation mark within a cell that is not quoted")),
            ',' => row.push(plain(std::mem::take(&mut cell))),
            '\r' => {}
            '\n' => {
                row.push(plain(std::mem::take(&mut cell)));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    if is_quoted {
        return Err("a quoted cell has no end".to_owned());
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(plain(cell));
        rows.push(row);
    }
    rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
    Ok(rows)
}

/// Without the apostrophe of [`line`].
fn plain(cell: String) -> String {
    match cell.strip_prefix('\'') {
        Some(rest) if rest.starts_with(FORMULAS) => rest.to_owned(),
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_spreadsheets_write_is_read() {
        let rows = read("\u{feff}a,b\r\n\"x, \"\"y\"\"\nz\",\r\n\r\n1,2").unwrap();
        assert_eq!(rows, [vec!["a", "b"], vec!["x, \"y\"\nz", ""], vec!["1", "2"]]);
        assert!(read("a,\"b").is_err());
        assert!(read("a,b\"c").is_err());
    }

    /// Fault 65: a title cannot become a formula on somebody's machine.
    #[test]
    fn fault_65_no_cell_is_a_formula() {
        assert_eq!(line(&["=1+1".into(), "-5".into(), "@x".into()]), "'=1+1,-5,'@x");
    }

    proptest! {
        #[test]
        fn rows_come_back(cells in proptest::collection::vec("[a-z=+@\"',\n -]{0,8}", 1..5)) {
            prop_assume!(cells.iter().any(|cell| !cell.is_empty()));
            prop_assume!(!cells.iter().any(|cell| cell.starts_with('\'')));
            let text = format!("{}\n", line(&cells));
            prop_assert_eq!(read(&text).unwrap(), vec![cells]);
        }
    }
}
