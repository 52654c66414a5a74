//! From text to what it means. Every complaint names the file and the entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use windlass_engine::core::error::Invalid;
use windlass_engine::core::id::{BudgetName, Key, Kind, QueueName, ScheduleName};
use windlass_engine::core::job::JobSpec;
use windlass_engine::core::json::{Json, META_BYTES_MAX};
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::ladder::RetryRule;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_engine::core::time::Span;
use windlass_engine::process::Command;
use windlass_server::Role;

use super::{CommandKind, Config, NamedToken};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {}: {why}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// It is not TOML, or says something that is not known.
    #[error("{} is wrong:\n{why}", .file.display())]
    Text {
        /// The file.
        file: PathBuf,
        /// Where and why.
        why: Box<toml::de::Error>,
    },
    /// An entry says what cannot be.
    #[error("{}: {entry}: {why}", .file.display())]
    Entry {
        /// The file.
        file: PathBuf,
        /// The entry, such as `queues.mail`.
        entry: String,
        /// Why.
        why: Invalid,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    listen: Option<String>,
    store: Option<String>,
    #[serde(default)]
    allowed_hosts: Vec<String>,
    #[serde(default)]
    https: bool,
    #[serde(default)]
    sensitive_kinds: Vec<Kind>,
    #[serde(default)]
    queues: BTreeMap<QueueName, QueuePolicy>,
    #[serde(default)]
    budgets: BTreeMap<BudgetName, BudgetPolicy>,
    #[serde(default)]
    schedules: BTreeMap<ScheduleName, ScheduleText>,
    #[serde(default)]
    commands: BTreeMap<Kind, CommandText>,
    #[serde(default)]
    tokens: BTreeMap<String, TokenText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleText {
    cron: String,
    #[serde(default = "utc")]
    zone: String,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    missed: Missed,
    #[serde(default)]
    paused: bool,
    kind: Kind,
    #[serde(default)]
    queue: QueueName,
    payload: Option<toml::Value>,
    #[serde(default)]
    priority: i16,
    key: Option<Key>,
    #[serde(default)]
    budgets: Vec<BudgetName>,
    retry: Option<RetryRule>,
    timeout: Option<Span>,
    meta: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandText {
    exec: Vec<String>,
    #[serde(default = "default_queues")]
    queues: Vec<QueueName>,
    #[serde(default = "default_slots")]
    slots: u16,
    grace: Option<Span>,
    folder: Option<PathBuf>,
    #[serde(default)]
    env: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenText {
    env: String,
    role: RoleWord,
    #[serde(default)]
    queues: Vec<QueueName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleWord {
    Admin,
    Read,
    Submit,
    Work,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn default_queues() -> Vec<QueueName> {
    vec![QueueName::default()]
}

fn default_slots() -> u16 {
    4
}

impl Config {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|why| ConfigError::Unreadable { file: file.to_owned(), why })?;
        Self::parse(&text, file)
    }

    fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let text: Text = toml::from_str(text)
            .map_err(|why| ConfigError::Text { file: file.to_owned(), why: Box::new(why) })?;
        text.checked().map_err(|(entry, why)| ConfigError::Entry { file: file.to_owned(), entry, why })
    }
}

type Checked<T> = Result<T, (String, Invalid)>;

impl Text {
    fn checked(self) -> Checked<Config> {
        let Self {
            listen,
            store,
            allowed_hosts,
            https,
            sensitive_kinds,
            queues,
            budgets,
            schedules,
            commands,
            tokens,
        } = self;
        Ok(Config {
            listen,
            store,
            allowed_hosts,
            https,
            sensitive_kinds,
            queues: each("queues", queues, |_, policy| policy.checked())?,
            budgets: budgets.into_iter().collect(),
            schedules: each("schedules", schedules, |_, schedule| schedule.policy())?,
            commands: values(each("commands", commands, |kind, command| command.kind(kind))?),
            tokens: values(each("tokens", tokens, |name, token| token.named(name))?),
        })
    }
}

/// Checks each entry of a table, and names the one that is wrong.
fn each<K: Ord + Clone + AsRef<str>, T, U>(
    table: &str,
    entries: BTreeMap<K, T>,
    check: impl Fn(&K, T) -> Result<U, Invalid>,
) -> Checked<Vec<(K, U)>> {
    let one = |(name, entry): (K, T)| match check(&name, entry) {
        Ok(checked) => Ok((name, checked)),
        Err(why) => Err((format!("{table}.{}", name.as_ref()), why)),
    };
    entries.into_iter().map(one).collect()
}

fn values<K, T>(entries: Vec<(K, T)>) -> Vec<T> {
    entries.into_iter().map(|(_, entry)| entry).collect()
}

impl ScheduleText {
    fn policy(self) -> Result<SchedulePolicy, Invalid> {
        let Self {
            cron,
            zone,
            overlap,
            missed,
            paused,
            kind,
            queue,
            payload,
            priority,
            key,
            budgets,
            retry,
            timeout,
            meta,
        } = self;
        let payload = match payload {
            Some(value) => Json::payload(json_text("payload", &value)?)?,
            None => Json::null(),
        };
        let meta = meta.map(|value| {
            let text = json_text("meta", &value)?;
            Json::new("meta", text.as_bytes(), META_BYTES_MAX)
        });
        let mut job = JobSpec::new(kind, queue, payload);
        job.priority = priority;
        job.key = key;
        job.budgets = budgets;
        job.retry = retry;
        job.timeout_ms = timeout.map(Span::ms);
        job.meta = meta.transpose()?;
        SchedulePolicy { cron, zone, overlap, missed, paused, job }.checked()
    }
}

fn json_text(field: &'static str, value: &toml::Value) -> Result<String, Invalid> {
    serde_json::to_string(value).map_err(|error| Invalid::new(field, format!("cannot be JSON: {error}")))
}

impl CommandText {
    fn kind(self, kind: &Kind) -> Result<CommandKind, Invalid> {
        let Self { exec, queues, slots, grace, folder, env } = self;
        if queues.is_empty() {
            return Err(Invalid::new("queues", "are none; leave them out for the queue default"));
        }
        if slots == 0 {
            return Err(Invalid::new("slots", "are 0; at least 1 is needed"));
        }
        let mut command = Command::new(exec)?;
        for name in &env {
            command = command.inherit(name);
        }
        if let Some(folder) = folder {
            command = command.folder(folder);
        }
        if let Some(grace) = grace {
            command = command.grace(Duration::from_millis(grace.ms()));
        }
        Ok(CommandKind { kind: kind.clone(), queues, slots, command })
    }
}

impl TokenText {
    fn named(self, name: &str) -> Result<NamedToken, Invalid> {
        let Self { env, role, queues } = self;
        let role = match (role, queues.is_empty()) {
            (RoleWord::Work, true) => return Err(Invalid::new("queues", "are needed with the role work")),
            (RoleWord::Work, false) => Role::Work(queues),
            (_, false) => return Err(Invalid::new("queues", "belong to the role work only")),
            (RoleWord::Admin, true) => Role::Admin,
            (RoleWord::Read, true) => Role::Read,
            (RoleWord::Submit, true) => Role::Submit,
        };
        Ok(NamedToken { name: name.to_owned(), variable: env, role })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("windlass.toml")).map_err(|error| error.to_string())
    }

    /// The example of the guide is what a file may say.
    #[test]
    fn the_example_of_the_guide_is_right() {
        let guide = include_str!("../../../../docs/guide/config.md");
        let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let config = parse(example).unwrap();
        let Config { listen, store, queues, budgets, schedules, commands, tokens, .. } = &config;
        assert!(listen.is_some() && store.is_some());
        let counts = [queues.len(), budgets.len(), schedules.len(), commands.len(), tokens.len()];
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("lisen = \"x\"", "unknown field `lisen`"),
            ("[queues.mail]\nlimits = 3", "unknown field `limits`"),
            ("[queues.mail]\nlease_ms = 1", "windlass.toml: queues.mail: lease_ms"),
            ("[queues.mail]\nladder = \"soon\"", "line 2"),
            ("[budgets.etsy]\nper_hour = 1", "unknown field `per_hour`"),
            ("[schedules.a]\ncron = \"99 * * * *\"\nkind = \"k\"", "schedules.a: cron"),
            ("[schedules.a]\ncron = \"0 * * * *\"\nzone = \"Mars/Base\"\nkind = \"k\"", "schedules.a: zone"),
            ("[schedules.a]\ncron = \"0 * * * *\"", "missing field `kind`"),
            ("[commands.k]\nexec = []", "commands.k: command has no program"),
            ("[commands.k]\nexec = [\"x\"]\nslots = 0", "commands.k: slots"),
            ("[tokens.ci]\nenv = \"CI\"\nrole = \"work\"", "tokens.ci: queues are needed"),
            ("[tokens.ci]\nenv = \"CI\"\nrole = \"god\"", "unknown variant `god`"),
            ("[queues.\"\"]", "queue"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(
            Config::read(Path::new("/nowhere/windlass.toml"))
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
    }

    #[test]
    fn a_payload_is_json() {
        let text = "[schedules.a]\ncron = \"0 * * * *\"\nkind = \"k\"\npayload = { n = 1, list = [\"x\"] }";
        let config = parse(text).unwrap();
        assert_eq!(config.schedules[0].1.job.payload.as_str(), r#"{"list":["x"],"n":1}"#);
    }
}
