//! The list of apps. A new one is a line here, a folder, and a feature.

use std::sync::Arc;

use clap::{ArgMatches, Command};
use windlass_app::{App, Host};

use crate::exit::Code;
use crate::output;
use crate::wiring::OurStores;

const APPS: &[&dyn App] = &[
    #[cfg(feature = "bitcoin-news")]
    &windlass_bitcoin_news::BitcoinNews,
    #[cfg(feature = "listener")]
    &windlass_listener::ListenerApp,
    #[cfg(feature = "news-nexus")]
    &windlass_news_nexus::NewsNexus,
    #[cfg(feature = "nurse-tour")]
    &windlass_nurse_tour::NurseTourApp,
    #[cfg(feature = "vela")]
    &windlass_vela::VelaApp,
];

/// The heading of the apps in the help.
const HEADING: &str = "Workers";

/// The command line with the apps in it. `--help` shows them under a heading of
/// their own, so that the list of verbs must not; completions must.
pub fn with_apps(command: Command, listed: bool) -> Command {
    let mut command = match APPS {
        [] => command,
        _ => command.help_template(template()),
    };
    for app in APPS {
        command = command.subcommand(windlass_app::command(*app).hide(!listed));
    }
    command
}

fn template() -> String {
    let width = APPS.iter().map(|app| app.name().len()).max().unwrap_or(0);
    let lines = APPS.iter().map(|app| format!("  {:<width$}  {}", app.name(), app.about()));
    let lines: Vec<String> = lines.collect();
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{{subcommands}}\n\n\
         {HEADING}:\n{}\n\nOptions:\n{{options}}{{after-help}}",
        lines.join("\n")
    )
}

/// The app that was asked for, and with what.
pub fn asked(matches: &ArgMatches) -> Option<(&'static dyn App, &ArgMatches)> {
    let (name, matches) = matches.subcommand()?;
    APPS.iter().find(|app| app.name() == name).map(|app| (*app, matches))
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
            assert!(!verbs.contains(app.name()), "{verbs}");
            assert!(apps.contains(&format!("  {}", app.name())) && apps.contains(app.about()), "{apps}");
        }
        assert!(verbs.contains("enqueue") && apps.contains("--json"), "{help}");
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
