//! `init`: a file with all settings to begin with, and what to do next. An app that has more to make has a verb
//! `init` of its own.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::app::{App, AppError, Exit};
use crate::output::print_json;
use crate::say;
use crate::settings::{Unset, env_file, quoted};

const VERB: &str = "init";

/// Adds the verb, unless the app has one.
pub(crate) fn with_init(app: &dyn App, command: Command) -> Command {
    if command.find_subcommand(VERB).is_some() {
        return command;
    }
    let file = Arg::new("file").long("file").value_name("FILE").value_parser(value_parser!(PathBuf));
    let file = file.help(format!("Where the settings go [default: {}.env]", app.name()));
    let about = "Write a file with all settings to begin with; what is there is kept";
    command.subcommand(Command::new(VERB).about(about).arg(file))
}

/// Whether the verb of the kit was asked for, and with what.
pub(crate) fn asked<'m>(app: &dyn App, matches: &'m ArgMatches) -> Option<&'m ArgMatches> {
    let of_verb = matches.subcommand_matches(VERB)?;
    let is_own = app.arguments(Command::new(app.name())).find_subcommand(VERB).is_some();
    (!is_own).then_some(of_verb)
}

/// Writes the file, readable by its owner alone, and welcomes.
pub(crate) fn run(app: &dyn App, matches: &ArgMatches, json: bool) -> Result<Exit, AppError> {
    let name = app.name();
    let path = matches.get_one("file").cloned().unwrap_or_else(|| PathBuf::from(format!("{name}.env")));
    let shown = path.display().to_string();
    let made = match std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            let written = file.write_all(env_file(name, app.settings()).as_bytes());
            written.map_err(|error| format!("cannot write {shown}: {error}"))?;
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(format!("cannot make {shown}: {error}; name another by --file").into()),
    };
    if json {
        print_json(&serde_json::json!({ "file": shown, "made": made }))?;
    } else {
        say!("{}   {shown}\n{}", if made { "made" } else { "kept" }, welcome(app, &shown));
    }
    Ok(Exit::DONE)
}

/// What to do next.
fn welcome(app: &dyn App, file: &str) -> String {
    let name = app.name();
    let needed = app.settings().iter().filter(|setting| setting.unset == Unset::Refused);
    let needed: Vec<&str> = needed.map(|setting| setting.name).collect();
    let fill_in = match needed.is_empty() {
        true => "fill in what you need".to_owned(),
        false => format!("fill in {}", needed.join(", ")),
    };
    let has_check = crate::app::command(app).find_subcommand("check").is_some();
    let check = if has_check {
        format!("\n  windlass {name} check    # what is missing still")
    } else {
        String::new()
    };
    // As a shell reads it: without a folder `.` would look along the PATH.
    let read = quoted(&if file.contains('/') { file.to_owned() } else { format!("./{file}") });
    format!(
        "next: {fill_in} in {file}, then\n  set -a; . {read}; set +a{check}\n  {}",
        format!("windlass {name} {}", app.start()).trim_end()
    )
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::app::{Needs, command};
    use crate::host::Host;
    use crate::settings::Setting;

    /// An app, with a verb `init` of its own or without.
    struct Shop {
        has_init: bool,
    }

    #[async_trait]
    impl App for Shop {
        fn name(&self) -> &'static str {
            "shop"
        }

        fn about(&self) -> &'static str {
            "Sell things"
        }

        fn settings(&self) -> &'static [Setting] {
            const { &[Setting::required("SHOP_KEY", "the key").secret()] }
        }

        fn needs(&self) -> Needs {
            Needs::OwnFile
        }

        fn arguments(&self, command: Command) -> Command {
            if self.has_init { command.subcommand(Command::new("init")) } else { command }
        }

        async fn run(&self, _: &ArgMatches, _: Host) -> Result<Exit, AppError> {
            Ok(Exit::FAILED)
        }
    }

    #[test]
    fn settings_to_begin_with_are_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.env");
        let app = Shop { has_init: false };
        let line = ["shop", "init", "--file", path.to_str().unwrap()];
        for content in ["SHOP_KEY=\n", "SHOP_KEY=mine\n"] {
            let matches = command(&app).try_get_matches_from(line).unwrap();
            assert_eq!(run(&app, asked(&app, &matches).unwrap(), true).unwrap(), Exit::DONE);
            assert!(std::fs::read_to_string(&path).unwrap().ends_with(content));
            std::fs::write(&path, "SHOP_KEY=mine\n").unwrap();
        }
        let nowhere = ["shop", "init", "--file", "/nowhere/at/all"];
        let matches = command(&app).try_get_matches_from(nowhere).unwrap();
        assert!(run(&app, asked(&app, &matches).unwrap(), false).unwrap_err().to_string().contains("--file"));
        assert!(welcome(&app, "shop.env").contains("fill in SHOP_KEY in shop.env"));
        for (file, read) in [("shop.env", ". ./shop.env;"), ("my shop/it's.env", ". 'my shop/it'\\''s.env';")]
        {
            assert!(welcome(&app, file).contains(read), "{}", welcome(&app, file));
        }
    }

    #[test]
    fn an_app_may_have_its_own() {
        let app = Shop { has_init: true };
        let matches = command(&app).try_get_matches_from(["shop", "init"]).unwrap();
        assert!(asked(&app, &matches).is_none());
    }
}
