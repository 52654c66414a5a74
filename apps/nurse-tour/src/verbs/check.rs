//! `windlass nurse-tour check`

use windlass_app::output::print_json_lines;
use windlass_app::{AppError, Exit, Host, Lack, say};

use super::database;
use crate::mapping::mapping;
use crate::schema::{self, Types};
use crate::settings::Worker;

/// Says what the database lacks. Exit code 1 when something is missing, so that a script can tell.
pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let (pool, url) = database(host)?;
    let missing = schema::missing(&pool).await?;
    let missing: Vec<Lack> =
        missing.into_iter().map(|missing| Lack { what: missing.what, sql: Some(missing.sql) }).collect();
    // What is there, is it also what it should be?
    let mut wrong = match missing.is_empty() {
        true => {
            let mapping = mapping(&Worker::default(), &Types::read(&pool).await?);
            host.stores.lacks(&url, &mapping).await?
        }
        // The store looks at a table that is whole; until then we look at its columns.
        false => unfit(schema::unfit_for_the_store(&pool).await?).collect(),
    };
    wrong.extend(unfit(schema::wrong(&pool).await?));
    wrong.extend(unfit(schema::refusals(&pool).await?));
    let found = missing.iter().map(|lack| ("missing", lack)).chain(wrong.iter().map(|lack| ("wrong", lack)));
    if host.json {
        let list = found.map(|(word, Lack { what, sql })| serde_json::json!({ word: what, "sql": sql }));
        print_json_lines(list)?;
    } else {
        for (word, Lack { what, sql }) in found {
            say!("{word}: {what}{}", sql.as_ref().map(|sql| format!("\n    {sql};")).unwrap_or_default());
        }
        for next in next_steps(!missing.is_empty(), !wrong.is_empty()) {
            say!("{next}");
        }
    }
    Ok(if missing.is_empty() && wrong.is_empty() { Exit::DONE } else { Exit::FAILED })
}

fn unfit(wrong: Vec<String>) -> impl Iterator<Item = Lack> {
    wrong.into_iter().map(|what| Lack { what, sql: None })
}

fn next_steps(is_missing: bool, is_wrong: bool) -> &'static [&'static str] {
    const MIGRATE: &str = "`windlass nurse-tour migrate` adds what is missing";
    match (is_missing, is_wrong) {
        (false, false) => &["nothing is missing"],
        (true, false) => &[MIGRATE],
        (false, true) => &["only the owner of the table can put this right"],
        (true, true) => &["only the owner of the table can put right what is wrong; do that first", MIGRATE],
    }
}
