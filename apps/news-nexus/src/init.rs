//! `windlass news-nexus init`: what a new installation needs. Whatever is there
//! already is kept, so it can also be run to find out what is missing.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use windlass_app::Host;
use windlass_outside::workbook;

use crate::database::{Categorizer, Database};
use crate::jobs::request_google_rss::rows::HEADERS;
use crate::jobs::semantic_scorer::{self, KEYWORDS_FILE, MODEL_FILES, MODEL_FOLDER, MODEL_NAME};
use crate::jobs::state_assigner;
use crate::start_error::StartError;

const SEARCHES: [[&str; 6]; 2] = [
    ["1", "recall", "product safety", "fire, burn, injury", "", "7d"],
    ["2", "", "carbon monoxide poisoning", "", "", "30d"],
];
const KEYWORDS: [&str; 5] =
    ["choking hazard", "electrical fire", "burn injury", "carbon monoxide poisoning", "product recall"];

const CATEGORIZERS: [Categorizer; 2] = [
    Categorizer {
        name: semantic_scorer::CATEGORIZER,
        description: "The keyword that an article is nearest to, by a sentence model",
        // As the program before this one called it; other programs look for this name.
        model: Some(("Xenova/paraphrase-MiniLM-L6-v2", "feature-extraction")),
    },
    Categorizer {
        name: state_assigner::CATEGORIZER,
        description: "The state in which an article happened, by a language model",
        model: None,
    },
];

/// Makes what is missing in a folder, and says what it did and what is left to do.
pub(crate) fn run(folder: &Path, host: &Host) -> Result<(), StartError> {
    let place = Place::of(folder, host)?;
    let mut said = vec![place.env.clone()];
    for (path, bytes) in place.workbooks() {
        said.push(make(&path, &bytes, 0o640)?);
    }
    for path in place.folders() {
        let made = !path.exists();
        fs::create_dir_all(&path).map_err(cannot(&path))?;
        said.push(line(made, &path));
    }
    let made = !place.database.exists();
    let mut database =
        Database::make(&place.database).map_err(|error| StartError::Database(error.to_string()))?;
    said.push(line(made, &place.database));
    let rows = database.first_rows(&CATEGORIZERS, include_str!("../first/prompt.md"), host.world.wall());
    let rows = rows.map_err(|error| StartError::Database(error.to_string()))?;
    said.extend(rows.into_iter().map(|row| format!("made   in the database: {row}")));
    said.push(next_steps(folder, &place.scorer, &place.spreadsheet));
    // Should nobody read it, everything is made all the same.
    let _ = writeln!(io::stdout(), "{}", said.join("\n"));
    Ok(())
}

/// Where everything belongs, by the settings of the folder.
struct Place {
    /// What became of `.env`.
    env: String,
    spreadsheet: PathBuf,
    scorer: PathBuf,
    responses: PathBuf,
    logs: PathBuf,
    database: PathBuf,
}

impl Place {
    fn of(folder: &Path, host: &Host) -> Result<Self, StartError> {
        fs::create_dir_all(folder).map_err(cannot(folder))?;
        let env = make(&folder.join(".env"), include_bytes!("../first/env"), 0o600)?;
        let given = host.environment.clone().over_file(folder).map_err(StartError::EnvFile)?;
        let path = |name: &str, default: &str| folder.join(given.get(name).unwrap_or(default));
        Ok(Self {
            env,
            spreadsheet: path("PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED", "queries.xlsx"),
            scorer: path("PATH_TO_SEMANTIC_SCORER_DIR", "semantic-scorer"),
            responses: path("PATH_TO_SAVE_CHATGPT_RESPONSES", "chatgpt-responses"),
            logs: path("PATH_TO_LOGS", "logs"),
            database: path("PATH_DATABASE", "db").join(given.get("NAME_DB").unwrap_or("newsnexus.db")),
        })
    }

    fn workbooks(&self) -> [(PathBuf, Vec<u8>); 2] {
        let searches: Vec<&[&str]> =
            [&HEADERS[..]].into_iter().chain(SEARCHES.iter().map(|row| &row[..])).collect();
        let keywords: Vec<[&str; 1]> = ["Keyword"].into_iter().chain(KEYWORDS).map(|text| [text]).collect();
        let keywords: Vec<&[&str]> = keywords.iter().map(|row| &row[..]).collect();
        [
            (self.spreadsheet.clone(), workbook::write("Queries", &searches)),
            (self.scorer.join(KEYWORDS_FILE), workbook::write("Keywords", &keywords)),
        ]
    }

    fn folders(&self) -> [PathBuf; 3] {
        [self.scorer.join(MODEL_FOLDER), self.responses.clone(), self.logs.clone()]
    }
}

/// Writes a file that is not there yet; answers what it did.
fn make(path: &Path, bytes: &[u8], mode: u32) -> Result<String, StartError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(cannot(folder))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(mut file) => {
            file.write_all(bytes).and_then(|()| file.sync_all()).map_err(cannot(path))?;
            Ok(line(true, path))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(line(false, path)),
        Err(error) => Err(cannot(path)(error)),
    }
}

fn line(made: bool, path: &Path) -> String {
    let what = if made { "made  " } else { "kept  " };
    format!("{what} {}", path.display())
}

fn cannot(path: &Path) -> impl FnOnce(io::Error) -> StartError {
    let path = path.display().to_string();
    move |error| StartError::File(path, error)
}

fn next_steps(folder: &Path, scorer: &Path, spreadsheet: &Path) -> String {
    format!(
        "\nWhat is left to do:\n  \
         1. Write the key of OpenAI into {env}: KEY_OPEN_AI=sk-…\n  \
         2. Put {MODEL_FILES} of {MODEL_NAME}\n     \
         (https://huggingface.co/{MODEL_NAME}) into {model}\n  \
         3. Replace the examples in {spreadsheet} and {keywords} by your own\n  \
         4. Start it in {folder}: windlass news-nexus",
        env = folder.join(".env").display(),
        model = scorer.join(MODEL_FOLDER).display(),
        spreadsheet = spreadsheet.display(),
        keywords = scorer.join(KEYWORDS_FILE).display(),
        folder = folder.display(),
    )
}
