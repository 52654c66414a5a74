//! How the server is set up: who may do what, and how much is too much.

use std::net::SocketAddr;

use windlass_engine::core::id::{Kind, QueueName};
use windlass_engine::core::time::Time;

use crate::secret::{Secret, SecretHash};

/// Everything that can be set. The default is an open server for this machine alone.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The token that may do everything (`WINDLASS_TOKEN`).
    pub token: Option<Secret>,
    /// Further tokens that may do less.
    pub tokens: Vec<Token>,
    /// Names under which the server may be asked for (`host` or `host:port`),
    /// beside localhost, 127.0.0.1 and `[::1]` with its own port. When any is
    /// said, others are refused even to those who have a token.
    pub allowed_hosts: Vec<String>,
    /// The server is reached by https, through a proxy: cookies say so.
    pub https: bool,
    /// Kinds whose payload, result and errors are shown in no list, no
    /// statistics and no log, and to nobody but an admin.
    pub sensitive_kinds: Vec<Kind>,
    /// Whether the server leaves it to others to take back lost leases, fire
    /// schedules and prune. Some process of the fleet must do it.
    pub no_housekeeping: bool,
    /// How much is too much.
    pub limits: Limits,
}

/// A token that may do less than everything, known by its hash alone.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its name, for the log. With [`Role::Work`] the names of its workers
    /// must be this, or begin with this and `/`.
    pub name: String,
    /// The SHA-256 of the token.
    pub hash: SecretHash,
    /// What it may do.
    pub role: Role,
    /// From then on it is worth nothing.
    pub expires_at: Option<Time>,
}

/// What the bearer of a token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Look at everything, change nothing.
    Read,
    /// Enqueue jobs and look at one of them.
    Submit,
    /// Claim from these queues, and write to the leases of its own workers.
    Work(Vec<QueueName>),
}

/// How much is too much. Times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request line with its headers.
    pub header_bytes_max: usize,
    /// From the first byte of a request to the end of its headers.
    pub header_ms: u64,
    /// How long a connection may be idle between requests.
    pub idle_ms: u64,
    /// Bytes of a body: a payload of 1 MiB in its envelope.
    pub body_bytes_max: usize,
    /// Bytes of the body of a batch.
    pub batch_bytes_max: usize,
    /// How many batches are written at once; what is more is refused.
    pub batches_max: usize,
    /// How many settlements are written at once; what is more waits.
    pub settlements_max: usize,
    /// Bytes of bodies that are read or worked on at once, the first 64 KiB of each aside.
    pub bodies_bytes_max: usize,
    /// The same for what finishes work: settlements, renewals, steps, progress.
    pub finishing_bytes_max: usize,
    /// The longest pause within a body.
    pub body_idle_ms: u64,
    /// The longest that a request may take, long polls and events aside.
    pub total_ms: u64,
    /// The longest that a client may leave an answer unread.
    pub write_stall_ms: u64,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections of one address.
    pub peer_connections_max: usize,
    /// Connections of this machine itself, where a proxy may speak for many.
    pub loopback_connections_max: usize,
    /// Requests that are being worked on at once, long polls and events aside; those that finish work have as many
    /// of their own.
    pub in_flight_max: usize,
    /// Long polls at once.
    pub polls_max: usize,
    /// The longest that a poll waits, whatever it asks for.
    pub poll_ms_max: u64,
    /// Listeners to events at once.
    pub listeners_max: usize,
    /// How long a refused token waits for its answer.
    pub refusal_ms: u64,
    /// How long requests may go on once the server is told to stop.
    pub shutdown_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes_max: 16 * 1024,
            header_ms: 5_000,
            idle_ms: 60_000,
            body_bytes_max: 1024 * 1024 + 64 * 1024,
            batch_bytes_max: 32 * 1024 * 1024,
            batches_max: 4,
            settlements_max: 16,
            bodies_bytes_max: 256 * 1024 * 1024,
            finishing_bytes_max: 256 * 1024 * 1024,
            body_idle_ms: 10_000,
            total_ms: 30_000,
            write_stall_ms: 30_000,
            connections_max: 1_024,
            peer_connections_max: 64,
            loopback_connections_max: 1_024,
            in_flight_max: 512,
            polls_max: 768,
            poll_ms_max: 60_000,
            listeners_max: 256,
            refusal_ms: 250,
            shutdown_ms: 10_000,
        }
    }
}

impl Limits {
    /// Those that concern a connection as a whole.
    pub(crate) fn of_connections(&self) -> windlass_listen::Limits {
        windlass_listen::Limits {
            header_bytes_max: self.header_bytes_max,
            header_ms: self.header_ms,
            idle_ms: self.idle_ms,
            write_stall_ms: self.write_stall_ms,
            connections_max: self.connections_max,
            peer_connections_max: self.peer_connections_max,
            loopback_connections_max: self.loopback_connections_max,
            shutdown_ms: self.shutdown_ms,
        }
    }
}

/// Why the server does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It would be open to the network.
    #[error(
        "refusing to listen on {0}: it can be reached from other machines and no token is set, so anybody \
         could run jobs. Set WINDLASS_TOKEN to a long random text, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// A token that anybody could guess.
    #[error("WINDLASS_TOKEN is empty. Set it to a long random text, or unset it")]
    EmptyToken,
}

impl Settings {
    /// Refuses what would be unsafe on this address.
    pub fn check(&self, addr: SocketAddr) -> Result<(), SettingsError> {
        if self.token.as_ref().is_some_and(Secret::is_empty) {
            return Err(SettingsError::EmptyToken);
        }
        if self.is_open() && !addr.ip().to_canonical().is_loopback() {
            return Err(SettingsError::Open(addr));
        }
        Ok(())
    }

    /// Whether no token is asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.token.is_none() && self.tokens.is_empty()
    }

    pub(crate) fn is_sensitive(&self, kind: &Kind) -> bool {
        self.sensitive_kinds.contains(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 69: an address that others can reach needs a token.
    #[test]
    fn fault_69_open_to_the_network_is_refused() {
        let open = Settings::default();
        let closed = Settings { token: Some(Secret::new("t")), ..Settings::default() };
        for (addr, loopback) in [
            ("127.0.0.1:7717", true),
            ("127.1.2.3:1", true),
            ("[::1]:7717", true),
            ("[::ffff:127.0.0.1]:7717", true),
            ("0.0.0.0:7717", false),
            ("[::]:7717", false),
            ("192.168.1.2:7717", false),
            ("[::ffff:10.0.0.1]:80", false),
        ] {
            let addr: SocketAddr = addr.parse().unwrap();
            assert_eq!(open.check(addr).is_ok(), loopback, "{addr}");
            assert_eq!(closed.check(addr), Ok(()), "{addr}");
        }
        let why = open.check("0.0.0.0:7717".parse().unwrap()).unwrap_err().to_string();
        assert!(why.contains("no token is set") && why.contains("Set WINDLASS_TOKEN"), "{why}");
        let empty = Settings { token: Some(Secret::new(" ")), ..Settings::default() };
        assert_eq!(empty.check("127.0.0.1:1".parse().unwrap()), Err(SettingsError::EmptyToken));
    }
}
