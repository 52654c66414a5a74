//! What people see: data on stdout, all else on stderr.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
pub use windlass_app::output::{plain, table};
use windlass_engine::core::time::Time;

/// Logs go to stderr; `WINDLASS_LOG` says which (`info`, `windlass=debug`).
pub fn start_logging() -> Tracing {
    let said = std::env::var("WINDLASS_LOG").ok().and_then(|said| said.parse().ok());
    let filter: Targets = said.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colour);
    let registry = tracing_subscriber::registry();
    #[cfg(feature = "otlp")]
    let (registry, tracing) = {
        let (spans, tracing) = spans();
        (registry.with(spans), tracing)
    };
    #[cfg(not(feature = "otlp"))]
    let tracing = Tracing {};
    registry.with(lines.with_filter(filter)).init();
    tracing
}

/// Sends the last spans to the collector when it is dropped; without the feature `otlp` there are none.
#[must_use = "what was traced last is sent when this is dropped"]
pub struct Tracing {
    #[cfg(feature = "otlp")]
    _sending: Option<windlass::otlp::Sending>,
}

/// Spans for the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names; none when it is not set.
#[cfg(feature = "otlp")]
fn spans<S>() -> (Option<impl tracing_subscriber::Layer<S>>, Tracing)
where
    S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
{
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        return (None, Tracing { _sending: None });
    }
    match windlass::otlp::layer("windlass") {
        Ok((layer, sending)) => {
            // Only our own: spans of the exporter's connections would be spans to send.
            let own = tracing_subscriber::filter::filter_fn(|of| of.target().starts_with("windlass"));
            (Some(layer.with_filter(own)), Tracing { _sending: Some(sending) })
        }
        Err(error) => {
            eprintln!("warning: nothing is traced: {error}; look at OTEL_EXPORTER_OTLP_ENDPOINT");
            (None, Tracing { _sending: None })
        }
    }
}

/// A progress bar on stderr; nothing when that is not a terminal.
pub fn progress(what: &str, length: u64) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    bar.set_style(bar_style());
    bar.set_message(what.to_owned());
    bar
}

/// What, how much of it, and how fast, in whole numbers.
fn bar_style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg:24} {bar:32} {pos}/{len} {rate}/s");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key(
        "rate",
        |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            // A terminal that cannot be written to is no reason to end.
            let _ = text.write_str(&thousands(state.per_sec()));
        },
    )
}

/// One value as JSON, on one line.
pub fn print_json<T: serde::Serialize + ?Sized>(value: &T) -> anyhow::Result<()> {
    Ok(windlass_app::output::print_json(value)?)
}

/// What became of one thing: for programs its sort, its name and a word, for people a sentence.
pub fn outcome(json: bool, sort: &str, name: &str, word: &str, said: &str) -> anyhow::Result<()> {
    match json {
        true => print_json(&serde_json::json!({ sort: name, "outcome": word })),
        false => {
            windlass_app::say!("{} {said}", plain(name));
            Ok(())
        }
    }
}

/// The first `width` letters of a text, on one line.
pub fn cut(text: &str, width: usize) -> String {
    let text = plain(text);
    match text.char_indices().nth(width) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The narrowest that a column is made.
const COLUMN_LETTERS_MIN: usize = 6;

/// A table that fits the terminal: its widest columns are cut. States are coloured there; the words say it, too.
pub fn fitted(head: &[&str], rows: &[Vec<String>]) -> String {
    if !std::io::stdout().is_terminal() {
        return table(head, rows);
    }
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    // A terminal that does not say how wide it is says 0.
    let text = fit(head, rows, if columns == 0 { usize::MAX } else { columns });
    if std::env::var_os("NO_COLOR").is_some() {
        return text;
    }
    let (head, rows) = text.split_once('\n').unwrap_or((&text, ""));
    let lines = std::iter::once(format!("\x1b[2m{head}\x1b[0m")).chain(rows.lines().map(coloured));
    lines.collect::<Vec<_>>().join("\n")
}

/// What a last column that is wide keeps, before the one in front of it is left out.
const LAST_LETTERS_MIN: usize = 24;
/// The fewest columns: of jobs which one, how it is, what it is, and what it waits for.
const COLUMNS_MIN: usize = 4;

/// A table of so many columns of letters at most. The last column says most: where little room is left for it, those
/// before it are left out.
fn fit(head: &[&str], rows: &[Vec<String>], columns: usize) -> String {
    let letters = |text: &str| text.chars().count();
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| letters(cell)).chain([letters(head[at])]).max()
    };
    let mut widths: Vec<usize> = (0..head.len()).map(|at| width(at).unwrap_or(0)).collect();
    let gaps = 2 * head.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > COLUMN_LETTERS_MIN) else {
            break;
        };
        *widest -= 1;
    }
    let last = head.len() - 1;
    let is_cut = widths[last] < width(last).unwrap_or(0).min(LAST_LETTERS_MIN);
    if is_cut && head.len() > COLUMNS_MIN {
        let without = |row: &[String]| [&row[..last - 1], &row[last..]].concat();
        let rows: Vec<Vec<String>> = rows.iter().map(|row| without(row)).collect();
        return fit(&[&head[..last - 1], &head[last..]].concat(), &rows, columns);
    }
    let short = |text: &str, width: usize| match letters(text) > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    };
    let head: Vec<String> = head.iter().zip(&widths).map(|(cell, width)| short(cell, *width)).collect();
    let row = |row: &Vec<String>| row.iter().zip(&widths).map(|(cell, width)| short(cell, *width)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    let text = table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
    text.lines().map(|line| short(line, columns)).collect::<Vec<_>>().join("\n")
}

/// The first state that a line names, in its colour.
fn coloured(line: &str) -> String {
    const COLOURS: [(&str, u8); 8] = [
        (" queued ", 2),
        (" running ", 36),
        (" completed ", 32),
        (" failed ", 31),
        (" canceled ", 2),
        (" paused ", 33),
        (" alive ", 32),
        (" silent ", 31),
    ];
    // The last word of a line is one, too.
    let padded = format!("{line} ");
    let found =
        COLOURS.iter().filter_map(|(word, colour)| Some((padded.find(word)?, word.trim(), colour))).min();
    match found {
        Some((at, word, colour)) => {
            let (before, rest) = line.split_at(at + 1);
            format!("{before}\x1b[{colour}m{word}\x1b[0m{}", &rest[word.len()..])
        }
        None => line.to_owned(),
    }
}

/// How long ago a moment was.
pub fn ago(at: Time, now: Time) -> String {
    match now.ms_since(at) {
        0 if at > now => until(at, now),
        ms => format!("{} ago", rough(ms)),
    }
}

/// How far away a moment is.
pub fn until(at: Time, now: Time) -> String {
    format!("in {}", rough(at.ms_since(now)))
}

fn rough(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

/// A whole number with its thousands set apart.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(12.0), "12");
    }

    #[test]
    fn states_have_colours() {
        assert_eq!(coloured("ab12  failed  mail"), "ab12  \x1b[31mfailed\x1b[0m  mail");
        assert_eq!(coloured("mail  3  paused"), "mail  3  \x1b[33mpaused\x1b[0m");
        assert_eq!(coloured("id  state  kind"), "id  state  kind");
    }

    #[test]
    fn tables_are_cut_where_they_are_widest() {
        let rows = vec![
            vec![
                "mail".to_owned(),
                "12".to_owned(),
                "1m 5m 15m 30m 1h 2h 4h".to_owned(),
                "paused".to_owned(),
            ],
            vec!["a-queue-with-a-name".to_owned(), "7".to_owned(), "none".to_owned(), "open".to_owned()],
        ];
        let head = ["queue", "queued", "ladder", "status"];
        assert_eq!(fit(&head, &rows, 100), table(&head, &rows));
        let narrow = fit(&head, &rows, 44);
        assert!(narrow.lines().all(|line| line.chars().count() <= 44), "{narrow}");
        assert!(
            narrow.contains("  paused") && narrow.contains("1m 5m 15m") && narrow.contains('…'),
            "{narrow}"
        );
        let rows = vec![vec![
            "3dabe013".to_owned(),
            "failed".to_owned(),
            "resize".to_owned(),
            "7".to_owned(),
            "exit status: 1: the image is broken".to_owned(),
        ]];
        let head = ["id", "state", "kind", "attempt", "waits for"];
        let narrow = fit(&head, &rows, 50);
        assert_eq!(narrow.lines().next(), Some("id        state   kind    waits for"), "{narrow}");
        assert!(
            narrow.contains("exit status: 1: the") && narrow.lines().all(|line| line.chars().count() <= 50)
        );
        let narrow = fit(&head, &rows, 36);
        assert!(narrow.contains("resize  exit sta"), "what it is stays: {narrow}");
        assert!(fit(&head, &rows, 10).lines().all(|line| line.chars().count() <= 10));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("größer als das", 6), "größer…");
    }
}
