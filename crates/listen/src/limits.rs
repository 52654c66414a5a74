//! How much is too much for a connection.

/// Limits of connections. Times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request line with its headers.
    pub header_bytes_max: usize,
    /// From the first byte of a request to the end of its headers.
    pub header_ms: u64,
    /// How long a connection may be idle between requests.
    pub idle_ms: u64,
    /// The longest that a client may leave an answer unread.
    pub write_stall_ms: u64,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections of one address.
    pub peer_connections_max: usize,
    /// Connections of this machine itself, where a proxy may speak for many.
    pub loopback_connections_max: usize,
    /// How long requests may go on once the server is told to stop.
    pub shutdown_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes_max: 16 * 1024,
            header_ms: 5_000,
            idle_ms: 60_000,
            write_stall_ms: 30_000,
            connections_max: 1_024,
            peer_connections_max: 64,
            loopback_connections_max: 1_024,
            shutdown_ms: 10_000,
        }
    }
}
