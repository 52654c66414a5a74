//! `import`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, say};

use crate::app::Place;
use crate::import::{Found, Imported};
use crate::jobs;
use crate::sources;

/// How large a file may be: as large as everything that one namespace can hold in these documents.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

pub async fn run(host: &Host, place: &Place, files: &[PathBuf], from_kv: bool) -> Result<Exit, AppError> {
    let (settings, archive) = super::archive(host, place).await?;
    if !from_kv && files.is_empty() {
        return Err("say which files to import, or --from-kv".into());
    }
    let found = match (&settings.kv, from_kv) {
        (Some(kv), true) => Found::of_kv(&sources::kv(kv)?).await?,
        (None, true) => return Err("CLOUDFLARE_KV_NAMESPACE_ID is not set; set it, or name files".into()),
        (_, false) => of_files(files)?,
    };
    jobs::prepare(&**archive.client.store(), &settings).await?;
    let imported = found.store(&archive).await?;
    if host.json {
        print_json(&imported)?;
        return Ok(Exit::DONE);
    }
    let Imported { finished, unfinished, remembered, known, unreadable } = imported;
    say!(
        "{finished} finished and {unfinished} unfinished articles were imported; {remembered} ids are remembered"
    );
    if known > 0 {
        say!("{known} were there already and were left as they are");
    }
    if unreadable > 0 {
        say!("{unreadable} could not be read: they have no id or no title");
    }
    Ok(Exit::DONE)
}

fn of_files(files: &[PathBuf]) -> Result<Found, AppError> {
    let mut found = Found::default();
    for path in files {
        let shown = path.display();
        let cannot = |why: String| format!("{shown} cannot be imported: {why}; nothing was changed");
        let bytes = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(cannot(format!("it is larger than {FILE_BYTES_MAX} bytes")).into());
        }
        let text = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
        let value: Value = serde_json::from_slice(&text).map_err(|_| cannot("it is not JSON".to_owned()))?;
        if !found.take(&key(path), &value) {
            return Err(cannot("it is none of the documents".to_owned()).into());
        }
    }
    Ok(found)
}

/// The key that a file's name says: `BTC_CHECKPOINT.json`.
fn key(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_end_matches(".json").to_owned()
}
