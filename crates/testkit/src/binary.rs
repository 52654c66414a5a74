//! The program as its users get it: what `cargo build --release` makes, with
//! its own features and nothing of the tests'. Cargo builds a program of the
//! tests, too (`CARGO_BIN_EXE_…`), but that one has whatever features the
//! dev-dependencies switched on, and has been green where the real one failed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// One of the two programs that people have.
struct Program {
    /// Where `./test` says that it is.
    variable: &'static str,
    /// How to make it.
    build: &'static str,
    /// The folder of its copy.
    folder: &'static str,
}

/// What the README builds.
const USUAL: Program = Program { variable: "WINDLASS_BIN", build: "cargo build --release", folder: "driven" };

/// With the Listener and the store on MongoDB, which take long to build; what the packages and the image have.
const FULL: Program = Program {
    variable: "WINDLASS_FULL_BIN",
    build: "cargo build --release --features listener",
    folder: "driven-full",
};

/// The path of `windlass`. `./test` builds it once and names it; without that
/// it is built here, which costs cargo's look at the sources when nothing has
/// changed. One that is older than its sources is never run.
///
/// # Panics
///
/// When it cannot be built, or the one that is named is older than a source.
pub fn windlass() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| USUAL.path())
}

/// The path of the `windlass` that has everything: for tests of the Listener
/// and of the store on MongoDB, which the usual one has not. It is named by
/// `WINDLASS_FULL_BIN`.
///
/// # Panics
///
/// As [`windlass`].
pub fn windlass_full() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| FULL.path())
}

impl Program {
    fn path(&self) -> PathBuf {
        match std::env::var_os(self.variable) {
            Some(named) => self.named(PathBuf::from(named)),
            None => self.built(),
        }
    }

    fn named(&self, path: PathBuf) -> PathBuf {
        if let Err(why) = is_fresh(&path) {
            let Self { variable, .. } = self;
            panic!("{variable} names {}, {why}; unset it, or run `./test`, which sets it", path.display());
        }
        path
    }

    /// A copy of what cargo builds: both programs come out under one name, so
    /// that one test at a time builds and copies.
    fn built(&self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lock = std::fs::File::open(root.join("Cargo.toml")).expect("our manifest");
        lock.lock().expect("one build at a time");
        let Self { build, folder, .. } = self;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(build.split(' ').skip(1))
            .arg("--message-format=json-render-diagnostics")
            .current_dir(root);
        let output = command.output().unwrap_or_else(|error| panic!("cannot run `{build}`: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{build}` failed, so there is nothing to test:\n{errors}");
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        let made = executable(&messages).unwrap_or_else(|| panic!("`{build}` made no windlass:\n{messages}"));
        let copy = made.with_file_name(folder).join("windlass");
        copied(&made, &copy).unwrap_or_else(|error| panic!("cannot copy {}: {error}", made.display()));
        copy
    }
}

/// Copies a program, unless the copy is of the same moment. A test that runs the copy of before keeps it.
fn copied(made: &Path, copy: &Path) -> std::io::Result<()> {
    let at = made.metadata()?.modified()?;
    if changed(copy) == Some(at) {
        return Ok(());
    }
    let folder = copy.parent().unwrap_or(copy);
    std::fs::create_dir_all(folder)?;
    let begun = folder.join("windlass.begun");
    std::fs::copy(made, &begun)?;
    std::fs::File::options().write(true).open(&begun)?.set_modified(at)?;
    std::fs::rename(begun, copy)
}

/// Whether no source of the program is newer than the program. What it was
/// made of is in the file that cargo leaves beside it, `windlass.d`.
fn is_fresh(path: &Path) -> Result<(), String> {
    let made = changed(path).ok_or("which is not there")?;
    let list = path.with_extension("d");
    let list = std::fs::read_to_string(list).map_err(|_| "of which nobody can say what it was made of")?;
    let (_, sources) = list.split_once(": ").ok_or("whose list of sources cannot be read")?;
    for source in paths(sources).chain(manifests(sources)) {
        let source_changed = changed(&source).ok_or_else(|| format!("but {} is gone", source.display()))?;
        if source_changed > made {
            return Err(format!("which is older than {}", source.display()));
        }
    }
    Ok(())
}

/// The paths of a list in the form of make: blanks between them, a backslash before a blank within one.
fn paths(list: &str) -> impl Iterator<Item = PathBuf> {
    const BLANK: &str = "\u{1}";
    let list = list.replace("\\ ", BLANK);
    let paths: Vec<PathBuf> =
        list.split_whitespace().map(|path| PathBuf::from(path.replace(BLANK, " "))).collect();
    paths.into_iter()
}

/// What says which versions and features the sources are built with.
fn manifests(list: &str) -> impl Iterator<Item = PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for source in paths(list) {
        let folders = source.ancestors().skip(1);
        found.extend(folders.flat_map(|folder| [folder.join("Cargo.toml"), folder.join("Cargo.lock")]));
        found.sort();
        found.dedup();
    }
    found.into_iter().filter(|path| path.exists())
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// Where cargo says that the program is.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut made = messages.filter(|message| message["target"]["name"] == "windlass");
    made.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program, a source and what lists it, with the source so many seconds younger.
    fn house(younger_s: i64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("a b")).unwrap();
        file("Cargo.toml", "");
        file("a b/main.rs", "");
        file("windlass", "");
        let source = folder.path().join("a b/main.rs").display().to_string().replace(' ', "\\ ");
        file("windlass.d", &format!("{}: {source}\n", folder.path().join("windlass").display()));
        let at = |name: &str, seconds: i64| {
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs((1_000_000 + seconds) as u64);
            std::fs::File::options()
                .write(true)
                .open(folder.path().join(name))
                .unwrap()
                .set_modified(at)
                .unwrap();
        };
        at("Cargo.toml", -10);
        at("windlass", 0);
        at("a b/main.rs", younger_s);
        folder
    }

    #[test]
    fn a_program_that_is_older_than_its_source_is_not_run() {
        let fresh = |folder: &tempfile::TempDir| is_fresh(&folder.path().join("windlass"));
        assert_eq!(fresh(&house(-1)), Ok(()));
        assert!(fresh(&house(1)).unwrap_err().contains("a b/main.rs"));
        let changed_manifest = house(-1);
        std::fs::write(changed_manifest.path().join("Cargo.toml"), "[features]").unwrap();
        assert!(fresh(&changed_manifest).unwrap_err().contains("Cargo.toml"));
        let unlisted = house(-1);
        std::fs::remove_file(unlisted.path().join("windlass.d")).unwrap();
        assert!(fresh(&unlisted).is_err());
        std::fs::remove_file(unlisted.path().join("windlass")).unwrap();
        assert!(fresh(&unlisted).unwrap_err().contains("not there"));
    }

    #[test]
    fn a_copy_is_of_the_program_that_was_built_last() {
        let folder = house(-1);
        let (made, copy) = (folder.path().join("windlass"), folder.path().join("driven/windlass"));
        copied(&made, &copy).unwrap();
        assert_eq!((changed(&copy), std::fs::read(&copy).unwrap()), (changed(&made), Vec::new()));
        std::fs::write(&copy, "the same moment, so it is left alone").unwrap();
        let at = changed(&made).unwrap();
        std::fs::File::options().write(true).open(&copy).unwrap().set_modified(at).unwrap();
        copied(&made, &copy).unwrap();
        assert!(!std::fs::read(&copy).unwrap().is_empty());
        std::fs::write(&made, "another").unwrap();
        copied(&made, &copy).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), b"another");
    }

    #[test]
    fn cargo_says_where_the_program_is() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"serde\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"windlass\"},\"executable\":null}\n\
                        no json\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"windlass\"},\"executable\":\"/t/windlass\"}";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/windlass")));
        assert_eq!(executable("{\"reason\":\"build-finished\"}"), None);
    }
}
