//! What people see of a verb: data on stdout, all else on stderr.

use serde::Serialize;

/// Writes a line to stdout. When nobody reads on (`windlass jobs | head`), the
/// program has done its work and ends.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::output::write_line(format_args!($($text)*)) };
}

/// See [`say!`].
pub fn write_line(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// One value as JSON, on one line.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<()> {
    say!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// A list as JSON, a line for each, so that `head` and `jq` work on one that is long.
pub fn print_json_lines<T: Serialize>(list: impl IntoIterator<Item = T>) -> serde_json::Result<()> {
    list.into_iter().try_for_each(|entry| print_json(&entry))
}

/// A table with a head; columns as wide as they need to be.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head.to_vec())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

/// Text from outside as it may be shown on a terminal: control characters and
/// what could begin a command to the terminal are spelled out.
pub fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["longer".into(), "22".into()]];
        assert_eq!(table(&["name", "n"], &rows), "name    n\na       1\nlonger  22");
    }

    /// Fault 65: text of a job cannot speak to the terminal.
    #[test]
    fn fault_65_control_characters_are_spelled_out() {
        assert_eq!(plain("a\u{1b}[31mred\nb"), "a\\u{1b}[31mred\\nb");
    }
}
