//! `windlass news-nexus check`: whether everything is there that the jobs need.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use windlass_app::{Finding, Host};

use crate::jobs::semantic_scorer::{KEYWORDS_FILE, MODEL_FILES, MODEL_FOLDER, MODEL_NAME};
use crate::settings::Settings;

/// Looks, and changes nothing.
pub(crate) fn look(host: &Host) -> Vec<Finding> {
    let given = match host.environment.clone().over_file(Path::new(".")) {
        Ok(given) => given,
        Err(error) => {
            return vec![Finding::wrong(
                format!("the file .env cannot be read: {error}"),
                "check who may read it",
            )];
        }
    };
    let settings = match Settings::read(given) {
        Ok(settings) => settings,
        Err(error) => {
            let to_do =
                "put them right in .env or in the environment; `windlass news-nexus init` makes an .env";
            return vec![Finding::wrong(error.to_string(), to_do)];
        }
    };
    let mut found = vec![Finding::fine("the settings")];
    found.extend(settings.complaint.iter().map(|complaint| Finding::wrong(complaint, "put it right")));
    let Settings { spreadsheet, scorer_folder, responses_folder, database, .. } = &settings;
    let init = "`windlass news-nexus init` makes one with examples";
    found.push(file(spreadsheet, "the workbook with the searches", init));
    found.push(file(&scorer_folder.join(KEYWORDS_FILE), "the workbook with the keywords", init));
    let model = scorer_folder.join(MODEL_FOLDER);
    let to_do = format!("put {MODEL_FILES} of https://huggingface.co/{MODEL_NAME} into {}", model.display());
    for name in MODEL_FILES.split([',', ' ']).filter(|name| name.contains('.')) {
        found.push(file(&model.join(name), "the sentence model", &to_do));
    }
    found.push(match responses_folder.is_dir() {
        true => Finding::fine(format!("the folder of OpenAI's answers: {}", responses_folder.display())),
        false => Finding::fine("the folder of OpenAI's answers will be made at the start"),
    });
    found.push(database_finding(database));
    found
}

fn file(path: &Path, what: &str, to_do: &str) -> Finding {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => Finding::fine(format!("{what}: {shown}")),
        Ok(_) => Finding::wrong(format!("{what}: {shown} is no file"), "move away what is there"),
        Err(error) => Finding::wrong(format!("{what}: {shown}: {error}"), to_do),
    }
}

/// Read and not written: neither the file nor a table is made by looking.
fn database_finding(path: &Path) -> Finding {
    let shown = path.display();
    if !path.is_file() {
        let what = format!("the database: {shown} is not there");
        return Finding::wrong(what, "`windlass news-nexus init` makes it");
    }
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let read = opened.and_then(|open| {
        open.query_row("SELECT count(*) FROM sqlite_master WHERE name = 'Articles'", [], |row| {
            row.get::<_, i64>(0)
        })
    });
    match read {
        Ok(1) => Finding::fine(format!("the database: {shown}")),
        Ok(_) => {
            let what = format!("the database: {shown} has no table Articles");
            Finding::wrong(what, "`windlass news-nexus init` makes what is missing")
        }
        Err(error) => {
            let what = format!("the database: {shown}: {error}");
            Finding::wrong(what, "check that it is a SQLite database and may be read")
        }
    }
}
