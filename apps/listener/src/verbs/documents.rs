//! `doc`, `dead` and `retry`.

use serde_json::Value;
use windlass_app::output::{plain, print_json, print_json_lines, table};
use windlass_app::{AppError, Exit, Host, say};

use super::refused;
use crate::home::Home;
use crate::office::{self, Again, OfficeError};

pub(crate) async fn history(host: &Host, home: &Home, id: &str) -> Result<Exit, AppError> {
    let found = match office::history(home, id).await {
        Ok(found) => found,
        Err(why) => return refused(why),
    };
    if host.json {
        print_json(&found)?;
        return Ok(Exit::DONE);
    }
    for (part, title, columns) in PARTS {
        let entries = found[part].as_array().map(Vec::as_slice).unwrap_or_default();
        if !entries.is_empty() {
            let cells = |entry: &Value| columns.iter().map(|(_, names)| cell(entry, names)).collect();
            let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
            let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
            say!("{title}\n{}", table(&heads, &rows));
        }
    }
    Ok(Exit::DONE)
}

/// A column: its head, and the fields of which the first that is there is shown.
type Column = (&'static str, &'static [&'static str]);

/// What is known of a document, part by part. Rows of Agenda's and jobs of the store have names of their own.
const PARTS: [(&str, &str, &[Column]); 3] = [
    (
        "history",
        "What happened, the newest first:",
        &[
            ("at", &["at"]),
            ("what", &["what"]),
            ("operation", &["operationType"]),
            ("listener", &["listener"]),
            ("job", &["jobId"]),
            ("error", &["error"]),
        ],
    ),
    (
        "jobs",
        "Its jobs:",
        &[
            ("job", &["_id", "id"]),
            ("name", &["name", "kind"]),
            ("state", &["state"]),
            ("due", &["nextRunAt", "createdAt"]),
            ("started", &["lastRunAt"]),
            ("ended", &["lastFinishedAt"]),
            ("error", &["failReason"]),
        ],
    ),
    (
        "dead_letters",
        "Waiting, or given up:",
        &[
            ("at", &["at"]),
            ("listener", &["listener"]),
            ("state", &["state"]),
            ("attempts", &["attempts"]),
            ("error", &["error"]),
        ],
    ),
];

fn cell(entry: &Value, names: &[&str]) -> String {
    let found = names.iter().map(|name| &entry[*name]).find(|value| !value.is_null());
    plain(&found.map_or_else(String::new, text))
}

/// A value as people read it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => {
            let special = value["$date"].as_str().or_else(|| value["$oid"].as_str());
            special.map_or_else(|| value.to_string(), str::to_owned)
        }
    }
}

pub(crate) async fn dead(host: &Host, home: &Home, listener: Option<&str>) -> Result<Exit, AppError> {
    let found = match office::dead(home, listener).await {
        Ok(found) => found,
        Err(why) => return refused(why),
    };
    if host.json {
        print_json_lines(&found)?;
        return Ok(Exit::DONE);
    }
    const COLUMNS: [&str; 6] = ["listener", "document", "state", "attempts", "at", "error"];
    let row = |letter: &Value| COLUMNS.iter().map(|name| plain(&text(&letter[*name]))).collect();
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    say!("{}", table(&COLUMNS, &rows));
    Ok(Exit::DONE)
}

pub(crate) async fn retry(
    host: &Host,
    home: &Home,
    document: Option<String>,
    listener: Option<String>,
    all_failed: bool,
) -> Result<Exit, AppError> {
    let is_one = document.is_some();
    let again = match (document, listener, all_failed) {
        (Some(id), listener, false) => Again::Document(id, listener),
        (None, Some(id), false) => Again::Listener(id),
        (None, None, true) => Again::AllFailed,
        _ => {
            return refused(OfficeError::Refused(vec![
                "say one of a document, --listener ID and --all-failed".to_owned(),
            ]));
        }
    };
    match office::retry(home, again).await {
        Ok(asked) if host.json => print_json(&serde_json::json!({ "asked": asked }))?,
        Ok(asked) => say!("{}", will_be_done(asked, is_one)),
        Err(why) => return refused(why),
    }
    Ok(Exit::DONE)
}

/// What was asked for: one document, which several listeners may do, or all that failed.
fn will_be_done(asked: u64, is_one: bool) -> String {
    match (is_one, asked) {
        (true, 1) => "the document will be done again".to_owned(),
        (true, listeners) => format!("the document will be done again by {listeners} listeners"),
        (false, 1) => "1 document will be done again".to_owned(),
        (false, documents) => format!("{documents} documents will be done again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document that two listeners do is one document.
    #[test]
    fn one_document_is_counted_once() {
        assert_eq!(will_be_done(2, true), "the document will be done again by 2 listeners");
        assert_eq!(will_be_done(1, true), "the document will be done again");
        assert_eq!(will_be_done(2, false), "2 documents will be done again");
        assert_eq!(will_be_done(1, false), "1 document will be done again");
    }
}
