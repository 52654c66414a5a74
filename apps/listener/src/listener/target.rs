//! Which databases a listener watches.

/// One database, or all whose names begin alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    Database(String),
    Prefix(String),
}

/// The beginning of a tenant's database.
pub(crate) const TENANT: &str = "workspace_";

/// Databases of the server itself, which no stream sees.
const OF_THE_SERVER: [&str; 3] = ["admin", "local", "config"];

impl Target {
    pub(crate) fn includes(&self, database: &str) -> bool {
        match self {
            Self::Database(name) => name == database,
            Self::Prefix(prefix) => database.starts_with(prefix) && !OF_THE_SERVER.contains(&database),
        }
    }

    /// Whether there can be a database that both include.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Database(name), other) | (other, Self::Database(name)) => other.includes(name),
            (Self::Prefix(one), Self::Prefix(other)) => one.starts_with(other) || other.starts_with(one),
        }
    }

    /// Why it cannot be watched.
    pub(crate) fn problem(&self) -> Option<String> {
        let (name, what) = match self {
            Self::Database(name) => (name, "database"),
            Self::Prefix(name) => (name, "databasePrefix"),
        };
        if name.is_empty() {
            return Some(format!(
                "{what} is empty; leave it out for every tenant (databasePrefix {TENANT:?})"
            ));
        }
        if name.len() > 63 || name.contains(['/', '\\', '.', ' ', '"', '$', '\0']) {
            return Some(format!("{what} {name:?} cannot be a name of a database"));
        }
        OF_THE_SERVER
            .contains(&name.as_str())
            .then(|| format!("{what} {name:?}: no stream sees the server's own databases"))
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Database(name) => name.clone(),
            Self::Prefix(prefix) => format!("{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let (one, all) = (Target::Database("workspace_a".into()), Target::Prefix("workspace_".into()));
        assert!(one.includes("workspace_a") && !one.includes("workspace_ab"));
        assert!(all.includes("workspace_new") && !all.includes("airank"));
        assert!(one.meets(&all) && all.meets(&one) && !one.meets(&Target::Database("x".into())));
        assert!(Target::Database("a b".into()).problem().is_some());
        assert!(Target::Database("admin".into()).problem().is_some());
        assert!(one.problem().is_none());
    }
}
