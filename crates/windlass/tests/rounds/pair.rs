//! A bare pair: a primary, and a standby made by `pg_basebackup`.

use windlass_testkit::postgres::Server;

pub struct Pair {
    pub primary: Server,
    pub standby: Server,
    parameters: &'static str,
}

impl Pair {
    /// No commit is answered before the standby has it.
    pub async fn synchronous() -> Self {
        let pair = Self::new("?replication=synchronous").await;
        pair.primary.commit_with_standby().await;
        pair
    }

    pub async fn asynchronous() -> Self {
        Self::new("").await
    }

    async fn new(parameters: &'static str) -> Self {
        let primary = Server::own().await;
        let standby = Server::standby_of(&primary).await;
        Self { primary, standby, parameters }
    }

    /// Both in one URL, as a fleet knows them.
    pub fn url(&self) -> String {
        url(&[&self.primary.authority(), &self.standby.authority()], self.parameters)
    }
}

pub fn url(authorities: &[&str], parameters: &str) -> String {
    format!("postgres://postgres@{}/postgres{parameters}", authorities.join(","))
}
