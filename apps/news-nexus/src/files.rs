//! Files that are written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file: a temporary one beside it, fsync, rename, fsync of the
/// folder. A folder that is gone is made again, and said to have been gone.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match write_once(path, bytes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            tracing::error!(folder = %folder.display(), "A folder was gone and is made again; what was in it is lost");
            write_once(path, bytes)
        }
        written => written,
    }
}

fn write_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let written = fill(Path::new(&temporary), bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What is half written is of no use to anybody.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
