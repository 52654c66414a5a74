//! `doc`, `dead` and `retry`.

use windlass_app::output::{plain, print_json, table};
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
    for (part, title) in
        [("history", "what happened"), ("jobs", "jobs"), ("dead_letters", "waiting, or given up")]
    {
        let entries = found[part].as_array().map(Vec::as_slice).unwrap_or_default();
        if !entries.is_empty() {
            say!("{title}:");
            entries.iter().for_each(|entry| say!("  {}", plain(&entry.to_string())));
        }
    }
    Ok(Exit::DONE)
}

pub(crate) async fn dead(host: &Host, home: &Home, listener: Option<&str>) -> Result<Exit, AppError> {
    let found = match office::dead(home, listener).await {
        Ok(found) => found,
        Err(why) => return refused(why),
    };
    if host.json {
        print_json(&found)?;
        return Ok(Exit::DONE);
    }
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        value => value["$date"].as_str().map_or_else(|| value.to_string(), str::to_owned),
    };
    const COLUMNS: [&str; 6] = ["listener", "document", "state", "attempts", "at", "error"];
    let row = |letter: &serde_json::Value| COLUMNS.iter().map(|name| plain(&text(&letter[*name]))).collect();
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
        Ok(1) => say!("1 document will be done again"),
        Ok(asked) => say!("{asked} documents will be done again"),
        Err(why) => return refused(why),
    }
    Ok(Exit::DONE)
}
