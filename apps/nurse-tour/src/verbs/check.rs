//! `windlass nurse-tour check`

use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, Lack, say};

use super::database;
use crate::mapping::mapping;
use crate::schema::{self, Types};
use crate::settings::Worker;

/// Says what the database lacks. Exit code 1 when something is missing, so that a script can tell.
pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let (pool, url) = database(host)?;
    let missing = schema::missing(&pool).await?;
    let mut found: Vec<Lack> =
        missing.into_iter().map(|missing| Lack { what: missing.what, sql: Some(missing.sql) }).collect();
    let (word, next) = match found.is_empty() {
        false => ("missing", "`windlass nurse-tour migrate` adds it"),
        true => {
            // Everything is there; is it also what it should be?
            let mapping = mapping(&Worker::default(), &Types::read(&pool).await?);
            found = host.stores.lacks(&url, &mapping).await?;
            let wrong = schema::wrong(&pool).await?.into_iter().chain(schema::refusals(&pool).await?);
            found.extend(wrong.map(|what| Lack { what, sql: None }));
            ("wrong", "only the owner of the table can put this right")
        }
    };
    if host.json {
        let list = found.iter().map(|Lack { what, sql }| serde_json::json!({ word: what, "sql": sql }));
        print_json(&list.collect::<Vec<_>>())?;
    } else {
        for Lack { what, sql } in &found {
            say!("{word}: {what}{}", sql.as_ref().map(|sql| format!("\n    {sql};")).unwrap_or_default());
        }
        say!("{}", if found.is_empty() { "nothing is missing" } else { next });
    }
    Ok(if found.is_empty() { Exit::DONE } else { Exit::FAILED })
}
