//! `gaps` and `replay`.

use mongodb::bson::DateTime;
use windlass_app::output::{plain, print_json, print_json_lines, table};
use windlass_app::{AppError, Exit, Host, say};

use super::refused;
use crate::home::Home;
use crate::office::{self, OfficeError};
use crate::replay;

pub(crate) async fn gaps(host: &Host, home: &Home) -> Result<Exit, AppError> {
    let found = office::gaps(home).await?;
    if host.json {
        print_json_lines(&found)?;
        return Ok(Exit::DONE);
    }
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        value => value["$date"].as_str().map_or_else(|| value.to_string(), str::to_owned),
    };
    let rows = found.iter().map(|gap| {
        ["listener", "from", "to", "code", "state", "jobs", "deletes"]
            .iter()
            .map(|name| plain(&text(&gap[*name])))
            .collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    say!("{}", table(&["listener", "from", "to", "code", "state", "jobs", "deletes"], &rows));
    Ok(Exit::DONE)
}

pub(crate) async fn replay(host: &Host, home: &Home, id: Option<&str>, from: &str) -> Result<Exit, AppError> {
    let Ok(from) = DateTime::parse_rfc3339_str(from) else {
        return refused(OfficeError::Refused(vec![
            "--from must be a moment such as 2026-01-31T12:00:00Z".to_owned(),
        ]));
    };
    let replayed = match id {
        Some(id) => replay::one(home, id, from).await,
        None => replay::all(home, from).await,
    };
    match replayed {
        Ok(()) if host.json => print_json(&serde_json::json!({ "replaying": true }))?,
        Ok(()) => say!("its history is read again; changes that have their job make no second one"),
        Err(why) => return refused(why),
    }
    Ok(Exit::DONE)
}
