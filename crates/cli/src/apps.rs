//! The list of apps. A new one is a folder, a line here, and one in our `Cargo.toml`: an optional dependency, whose name is its feature.
//! What it needs beside SQLite, and that it is in the usual program, is said there as well.

#[cfg(test)]
mod documented;

use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};
use windlass_app::{App, Host};

use crate::exit::Code;
use crate::left_out::{LeftOut, VERBS, build_with};
use crate::output;
use crate::wiring::OurStores;

macro_rules! apps {
    ($($name:literal: $app:expr,)*) => {
        const APPS: &[&dyn App] = &[$(#[cfg(feature = $name)] &$app,)*];
        /// Those that this program was built without: the name is that of the feature.
        const LEFT_OUT: &[&str] = &[$(#[cfg(not(feature = $name))] $name,)*];
    };
}

apps! {
    "bitcoin-news": bitcoin_news::BitcoinNews,
    "listener": listener::ListenerApp,
    "news-nexus": news_nexus::NewsNexus,
    "nurse-tour": nurse_tour::NurseTourApp,
    "vela": vela::VelaApp,
}

/// The heading of the apps in the help.
const HEADING: &str = "Workers";

/// The command line with the apps in it. `--help` shows them under a heading of
/// their own, so that the list of verbs must not; completions must.
pub fn with_apps(command: Command, listed: bool) -> Command {
    let built = APPS.iter().map(|app| windlass_app::command(*app).hide(!listed));
    let left_out = LEFT_OUT.iter().map(|name| command_left_out(name, name).hide(true));
    let verbs = VERBS.iter().map(|(verb, feature)| command_left_out(verb, feature));
    command.help_template(template()).subcommands(built).subcommands(left_out).subcommands(verbs)
}

/// Whatever is asked of an app or a verb that is not here is answered with how to get it.
fn command_left_out(name: &'static str, feature: &str) -> Command {
    let anything = Arg::new("anything").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    Command::new(name).about(about_left_out(feature)).disable_help_flag(true).arg(anything.hide(true))
}

fn about_left_out(feature: &str) -> String {
    format!("Not in this program; get it with: {}", build_with(feature))
}

fn template() -> String {
    let built = APPS.iter().map(|app| (app.name(), app.about().to_owned()));
    let left_out = LEFT_OUT.iter().map(|name| (*name, about_left_out(name)));
    let mut apps: Vec<(&str, String)> = built.chain(left_out).collect();
    apps.sort();
    let width = apps.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = apps.iter().map(|(name, about)| format!("  {name:<width$}  {about}")).collect();
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{{subcommands}}\n\n\
         {HEADING}:\n{}\n\nOptions:\n{{options}}{{after-help}}",
        lines.join("\n")
    )
}

/// The app that was asked for, and with what.
pub fn asked(matches: &ArgMatches) -> Result<Option<(&'static dyn App, &ArgMatches)>, LeftOut> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(None) };
    let apps = LEFT_OUT.iter().map(|name| (*name, *name));
    if let Some((_, feature)) = apps.chain(VERBS.iter().copied()).find(|(left_out, _)| *left_out == name) {
        return Err(LeftOut { what: format!("windlass {name}"), feature });
    }
    Ok(APPS.iter().find(|app| app.name() == name).map(|app| (*app, matches)))
}

/// Runs an app.
pub async fn run(app: &dyn App, matches: &ArgMatches, json: bool) -> anyhow::Result<Code> {
    let _tracing = (!app.logs_by_itself(matches)).then(output::start_logging);
    let host = Host::of_process(Arc::new(OurStores), json);
    let exit = windlass_app::run(app, matches, host).await.map_err(anyhow::Error::from_boxed)?;
    match exit.0 {
        0 => Ok(Code::Done),
        // The codes of a job's process are a language of their own.
        code => std::process::exit(i32::from(code)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    #[test]
    fn apps_stand_under_a_heading_of_their_own() {
        let mut command = with_apps(Args::command(), false);
        command.clone().debug_assert();
        let help = command.render_help().to_string();
        let (verbs, apps) = help.split_once("\nWorkers:\n").expect("a heading");
        for app in APPS {
            assert!(!verbs.contains(&format!("  {} ", app.name())), "{verbs}");
            assert!(apps.contains(&format!("  {}", app.name())) && apps.contains(app.about()), "{apps}");
        }
        for name in LEFT_OUT {
            assert!(!verbs.contains(&format!("  {name} ")), "{verbs}");
            assert!(apps.contains(&format!("  {name}")) && apps.contains(&build_with(name)), "{apps}");
        }
        assert!(verbs.contains("enqueue") && apps.contains("--json"), "{help}");
    }

    /// What `init` tells people to do next, and what they do without having read anything.
    #[test]
    fn what_is_said_to_start_an_app_starts_it() {
        for app in APPS {
            let line = format!("windlass {} {}", app.name(), app.start());
            let matches = with_apps(Args::command(), false).try_get_matches_from(line.split_whitespace());
            let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
            let (found, of_app) = asked(&matches).unwrap().expect("an app");
            let verb = of_app.subcommand_name().unwrap_or_default();
            assert_eq!((found.name(), verb), (app.name(), app.start()));
        }
    }

    #[test]
    fn what_is_left_out_says_how_to_get_it() {
        for (name, feature) in LEFT_OUT.iter().map(|name| (*name, *name)).chain(VERBS.iter().copied()) {
            for line in [
                &["windlass", name][..],
                &["windlass", name, "--help"],
                &["windlass", name, "add", "-x", "y"],
            ] {
                let matches = with_apps(Args::command(), false).try_get_matches_from(line).unwrap();
                let error = asked(&matches).err().map(|error| error.to_string()).unwrap_or_default();
                assert!(error.contains(&build_with(feature)), "{line:?}: {error}");
            }
        }
        let matches = with_apps(Args::command(), false).try_get_matches_from(["windlass", "jobs"]).unwrap();
        assert!(asked(&matches).unwrap().is_none());
    }

    #[test]
    fn completions_know_the_apps() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut with_apps(Args::command(), true), "windlass", &mut script);
            let script = String::from_utf8(script).unwrap();
            for app in APPS {
                assert!(script.contains(app.name()), "{shell}: {}", app.name());
            }
        }
    }
}
