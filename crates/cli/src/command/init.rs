//! `windlass init`: a folder to begin in. Whatever is there already is kept.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::exit::Code;
use crate::output::print_json;
use crate::say;

/// Its files: name, content, mode.
const FILES: [(&str, &str, u32); 2] = [
    ("windlass.toml", include_str!("../../first/windlass.toml"), 0o644),
    ("greet.sh", include_str!("../../first/greet.sh"), 0o755),
];

/// Where.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass init hello && cd hello && windlass serve")]
pub struct InitArgs {
    /// The folder; it is made when it is not there
    #[arg(default_value = ".")]
    folder: PathBuf,
}

/// Makes what is missing, and says what to do next.
pub fn run(args: InitArgs, json: bool) -> anyhow::Result<Code> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text, mode) in FILES {
        let path = folder.join(name);
        let made = make(&path, text, mode).with_context(|| format!("cannot write {}", path.display()))?;
        let word = if made { "made" } else { "kept" };
        match json {
            true => print_json(&serde_json::json!({ "file": path, "outcome": word }))?,
            false => say!("{word} {}", path.display()),
        }
    }
    if json {
        return Ok(Code::Done);
    }
    let go = match folder.as_os_str() == "." {
        true => String::new(),
        false => format!("cd {} && ", folder.display()),
    };
    say!(
        "\nNext:\n  {go}windlass serve\n  windlass enqueue greet '{{\"name\": \"Ada\"}}' --wait --url http://127.0.0.1:7717"
    );
    Ok(Code::Done)
}

/// Writes a file that is not there yet; says whether it did.
fn make(path: &Path, text: &str, mode: u32) -> std::io::Result<bool> {
    match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
