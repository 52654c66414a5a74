//! `windlass.toml`: what a server is to be like, as a file under version control.
//!
//! What the file says of a queue, a budget or a schedule is set each time the
//! server starts; what it does not name stays as it is in the store. It holds
//! no secret: a token is named by the variable that holds it.

mod apply;
mod read;

use std::path::{Path, PathBuf};

use windlass_engine::core::id::{BudgetName, Kind, QueueName, ScheduleName};
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::policy::schedule::SchedulePolicy;
use windlass_engine::process::Command;
use windlass_server::Role;

pub use read::ConfigError;

/// The file that is read when none is named.
pub const FILE: &str = "windlass.toml";

/// All that a file says, checked.
#[derive(Debug, Default)]
pub struct Config {
    /// Where to listen.
    pub listen: Option<String>,
    /// The URL of the store.
    pub store: Option<String>,
    /// Names under which the server may be asked for.
    pub allowed_hosts: Vec<String>,
    /// The server is reached by https, through a proxy.
    pub https: bool,
    /// Kinds that are shown to nobody but an admin.
    pub sensitive_kinds: Vec<Kind>,
    /// The queues.
    pub queues: Vec<(QueueName, QueuePolicy)>,
    /// The budgets.
    pub budgets: Vec<(BudgetName, BudgetPolicy)>,
    /// The schedules.
    pub schedules: Vec<(ScheduleName, SchedulePolicy)>,
    /// The kinds that programs run, inside the server.
    pub commands: Vec<CommandKind>,
    /// Tokens that may do less than everything.
    pub tokens: Vec<NamedToken>,
}

/// A kind of jobs that a program runs.
#[derive(Debug)]
pub struct CommandKind {
    /// The kind.
    pub kind: Kind,
    /// From which queues.
    pub queues: Vec<QueueName>,
    /// How many at once.
    pub slots: u16,
    /// The program.
    pub command: Command,
}

/// A token that may do less than everything.
#[derive(Debug)]
pub struct NamedToken {
    /// Its name.
    pub name: String,
    /// The variable of the environment that holds it.
    pub variable: String,
    /// What it may do.
    pub role: Role,
}

/// The file that is meant: the one that was named, or the usual one when it is there.
pub fn find(named: Option<&Path>) -> Option<PathBuf> {
    match named {
        Some(path) => Some(path.to_owned()),
        None => Some(PathBuf::from(FILE)).filter(|path| path.exists()),
    }
}

impl Config {
    /// Reads the file that is meant; nothing is said when there is none.
    pub fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        find(named).map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }
}
