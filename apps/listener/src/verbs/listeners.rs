//! `ls`, `show`, `pause`, `resume`, `rm`.

use std::collections::BTreeMap;

use mongodb::bson::Document;
use windlass_app::output::{plain, print_json, print_json_lines, table};
use windlass_app::{AppError, Exit, Host, say};

use super::refused;
use crate::event::id_text;
use crate::home::Home;
use crate::listener::{self, Listener, databases};
use crate::office::{self, OfficeError, as_json};

fn row(document: &Document, refused: &BTreeMap<String, String>) -> Vec<String> {
    let id = document.get("_id").map(id_text).unwrap_or_default();
    let operations = Listener::read(document).map(|listener| {
        let words: Vec<&str> = listener.operations.iter().map(|operation| operation.word()).collect();
        words.join(",")
    });
    let text = |name: &str| document.get_str(name).unwrap_or("-").to_owned();
    let state = match (refused.contains_key(&id), document.get_bool("isActive").unwrap_or(true)) {
        (true, _) => "refused",
        (false, true) => "active",
        (false, false) => "paused",
    };
    let databases = databases(document).unwrap_or_else(|| "-".to_owned());
    let operations = operations.unwrap_or_else(|_| "-".to_owned());
    let row = [id, databases, text("collection"), operations, text("jobName"), state.to_owned()];
    row.iter().map(|cell| plain(cell)).collect()
}

pub(crate) async fn list(host: &Host, home: &Home) -> Result<Exit, AppError> {
    let found = office::list(home).await?;
    if host.json {
        print_json_lines(found.into_iter().map(as_json))?;
    } else {
        let refused = listener::refused(&found, &home.database, &home.own_names());
        let rows: Vec<Vec<String>> = found.iter().map(|document| row(document, &refused)).collect();
        say!("{}", table(&["id", "databases", "collection", "on", "job", "state"], &rows));
        for (id, why) in &refused {
            say!("{} is refused: {}", plain(id), plain(why));
        }
    }
    Ok(Exit::DONE)
}

fn said(host: &Host, answer: Result<Document, OfficeError>, word: &str) -> Result<Exit, AppError> {
    match answer {
        Ok(document) if host.json || word.is_empty() => {
            let value = as_json(document);
            match host.json {
                true => print_json(&value)?,
                false => say!("{}", serde_json::to_string_pretty(&value)?),
            }
        }
        Ok(document) => say!("{} {word}", document.get("_id").map(id_text).unwrap_or_default()),
        Err(why) => return refused(why),
    }
    Ok(Exit::DONE)
}

pub(crate) async fn show(host: &Host, home: &Home, id: &str) -> Result<Exit, AppError> {
    said(host, office::show(home, id).await, "")
}

pub(crate) async fn set_active(
    host: &Host,
    home: &Home,
    id: &str,
    is_active: bool,
) -> Result<Exit, AppError> {
    let word = if is_active { "resumed" } else { "paused" };
    said(host, office::set_active(home, id, is_active).await, word)
}

pub(crate) async fn remove(host: &Host, home: &Home, id: &str) -> Result<Exit, AppError> {
    said(host, office::remove(home, id).await, "deleted")
}
