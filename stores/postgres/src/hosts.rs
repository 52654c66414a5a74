//! Several hosts as one database, as libpq means them. They are asked in turn,
//! each with a limit of time that covers its whole handshake, and the first
//! that takes writes is used. As with "happy eyeballs", a host that hangs holds
//! up the next one for [`HEAD_START`] and not for its whole limit.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a host is alone before the next one is asked as well.
const HEAD_START: Duration = Duration::from_millis(250);
/// The longest that one host may take, unless the URL says `connect_timeout`.
const HOST_TIME: Duration = Duration::from_secs(2);
/// Between two rounds: a standby may be on its way to become the primary.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// How long a host may take to show that it is alive.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
pub(crate) type Connected = (Client, Connection<Socket, Stream>);

/// Where a database may be.
pub(crate) struct Hosts {
    config: Config,
    tls: MakeRustlsConnect,
    in_all: Duration,
    /// Where the newest connection leads to.
    last: Mutex<Option<Place>>,
    /// Whether the newest try found nobody. Then one try is made at a time: a host that is frozen keeps whoever knocks, and
    /// would have to open to hundreds that have long gone before it comes to one that is still there.
    away: AtomicBool,
    turn: tokio::sync::Mutex<()>,
}

/// One address of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    host: Option<Host>,
    addr: Option<IpAddr>,
    port: u16,
}

/// Why there is no connection; nothing when nobody answered in time.
struct Missed(Option<Error>);

impl Missed {
    /// Whether asking again soon may help: not when a server has said no to who asks.
    fn may_pass(&self) -> bool {
        let Some(code) = self.0.as_ref().and_then(Error::code) else { return true };
        [SqlState::CANNOT_CONNECT_NOW, SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(code)
    }
}

impl Hosts {
    /// Those of a URL; looking for one that takes writes ends after `in_all`.
    pub(crate) fn new(mut config: Config, tls: MakeRustlsConnect, in_all: Duration) -> Self {
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
            // A store writes: of several, one that does not take that is no use.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Self {
            config,
            tls,
            in_all,
            last: Mutex::new(None),
            away: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// A connection to the one that takes writes.
    pub(crate) async fn connect(&self) -> Result<Connected, Error> {
        match self.try_in_turn().await {
            Ok(connected) => Ok(connected),
            Err(Missed(Some(error))) => Err(error),
            // The caller has a limit of its own, and says so.
            Err(Missed(None)) => std::future::pending().await,
        }
    }

    async fn try_in_turn(&self) -> Result<Connected, Missed> {
        let mut turn = None;
        if self.away.load(Ordering::Relaxed) {
            turn = Some(self.turn.lock().await);
        }
        if !self.away.load(Ordering::Relaxed) {
            // Somebody is there again: nobody need wait for the others.
            turn = None;
        }
        let tried = self.look_for_one().await;
        self.away.store(tried.is_err(), Ordering::Relaxed);
        drop(turn);
        tried
    }

    /// Asks all places, again and again for as long as there is time where there are several.
    async fn look_for_one(&self) -> Result<Connected, Missed> {
        let mut newest = Missed(None);
        let rounds = async {
            loop {
                let places = self.places().await;
                let several = places.len() > 1;
                match self.race(places).await {
                    Err(missed) if several && missed.may_pass() => newest = missed,
                    ended => return ended,
                }
                pause(ROUND_PAUSE).await;
            }
        };
        let ended = tokio::time::timeout(self.in_all, rounds).await;
        ended.unwrap_or(Err(newest))
    }

    /// Whether the host of the newest connection still does what it is asked to.
    pub(crate) async fn is_alive(&self) -> bool {
        let Some(place) = self.last().clone() else { return true };
        let mut config = self.config_of(&place);
        config.target_session_attrs(TargetSessionAttrs::Any);
        let asked = async {
            let (client, connection) = config.connect(self.tls.clone()).await?;
            tokio::select! {
                // Behind a pooler only a statement comes to the database.
                said = client.batch_execute("SELECT 1") => said,
                ended = connection => ended,
            }
        };
        match tokio::time::timeout(SIGN_OF_LIFE, asked).await {
            Ok(Ok(())) => true,
            // To be refused in words is a sign of life as well.
            Ok(Err(error)) => error.code().is_some(),
            Err(_) => false,
        }
    }

    /// What a session says that has none of our settings, where the newest connection leads to; nothing where there is none
    /// to be had.
    pub(crate) async fn plainly(&self, query: &str) -> Option<String> {
        let place = self.last().clone()?;
        let mut config = self.config_of(&place);
        if config.get_options().is_some() {
            config.options("");
        }
        let asked = async {
            let (client, connection) = config.connect(self.tls.clone()).await.ok()?;
            tokio::select! {
                said = client.simple_query(query) => said.ok(),
                _ = connection => None,
            }
        };
        let said = tokio::time::timeout(SIGN_OF_LIFE, asked).await.ok().flatten()?;
        said.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// Asks the places one after the other, without waiting for the end of each.
    async fn race(&self, places: Vec<Place>) -> Result<Connected, Missed> {
        let mut waiting = places.into_iter();
        let mut asked = FuturesUnordered::new();
        let mut missed = Missed(None);
        asked.extend(waiting.next().map(|place| self.ask(place)));
        loop {
            tokio::select! {
                answer = asked.next() => match answer {
                    Some(Ok((place, connected))) => {
                        *self.last() = Some(place);
                        return Ok(connected);
                    }
                    Some(Err(Missed(error))) => {
                        missed = Missed(error.or(missed.0));
                        asked.extend(waiting.next().map(|place| self.ask(place)));
                    }
                    None => return Err(missed),
                },
                () = pause(HEAD_START), if waiting.len() > 0 => {
                    asked.extend(waiting.next().map(|place| self.ask(place)));
                }
            }
        }
    }

    async fn ask(&self, place: Place) -> Result<(Place, Connected), Missed> {
        let config = self.config_of(&place);
        let limit = config.get_connect_timeout().copied().unwrap_or(HOST_TIME);
        match tokio::time::timeout(limit, config.connect(self.tls.clone())).await {
            Ok(Ok(connected)) => Ok((place, connected)),
            Ok(Err(error)) => Err(Missed(Some(error))),
            Err(_) => Err(Missed(None)),
        }
    }

    /// Every address of every host, that of the newest connection first.
    async fn places(&self) -> Vec<Place> {
        let (hosts, addrs, ports) =
            (self.config.get_hosts(), self.config.get_hostaddrs(), self.config.get_ports());
        let mut places = Vec::new();
        for at in 0..hosts.len().max(addrs.len()) {
            let (host, addr) = (hosts.get(at).cloned(), addrs.get(at).copied());
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let found = match (&host, addr) {
                (Some(Host::Tcp(name)), None) => resolved(name, port).await,
                _ => Vec::new(),
            };
            let known = |addr| Place { host: host.clone(), addr, port };
            if found.is_empty() {
                places.push(known(addr));
            }
            places.extend(found.into_iter().map(|addr| known(Some(addr))));
        }
        if self.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            shuffle(&mut places);
        }
        let last = self.last().clone();
        if let Some(at) = places.iter().position(|place| Some(place) == last.as_ref()) {
            places[..=at].rotate_right(1);
        }
        places
    }

    /// The URL's settings, for one place alone.
    fn config_of(&self, place: &Place) -> Config {
        let all = &self.config;
        let mut one = Config::new();
        if let Some(user) = all.get_user() {
            one.user(user);
        }
        if let Some(password) = all.get_password() {
            one.password(password);
        }
        if let Some(name) = all.get_dbname() {
            one.dbname(name);
        }
        if let Some(options) = all.get_options() {
            one.options(options);
        }
        if let Some(name) = all.get_application_name() {
            one.application_name(name);
        }
        if let Some(time) = all.get_connect_timeout() {
            one.connect_timeout(*time);
        }
        if let Some(time) = all.get_tcp_user_timeout() {
            one.tcp_user_timeout(*time);
        }
        if let Some(time) = all.get_keepalives_interval() {
            one.keepalives_interval(time);
        }
        if let Some(retries) = all.get_keepalives_retries() {
            one.keepalives_retries(retries);
        }
        one.ssl_mode(all.get_ssl_mode())
            .ssl_negotiation(all.get_ssl_negotiation())
            .keepalives(all.get_keepalives())
            .keepalives_idle(all.get_keepalives_idle())
            .target_session_attrs(all.get_target_session_attrs())
            .channel_binding(all.get_channel_binding())
            .port(place.port);
        match &place.host {
            Some(Host::Tcp(name)) => drop(one.host(name)),
            #[cfg(unix)]
            Some(Host::Unix(path)) => drop(one.host_path(path)),
            None => {}
        }
        if let Some(addr) = place.addr {
            one.hostaddr(addr);
        }
        one
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Place>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of a name; none when it cannot be found in time, and whoever connects to it says why.
async fn resolved(name: &str, port: u16) -> Vec<IpAddr> {
    match tokio::time::timeout(HOST_TIME, tokio::net::lookup_host((name, port))).await {
        Ok(Ok(found)) => found.map(|addr| addr.ip()).collect(),
        _ => Vec::new(),
    }
}

/// Another order each time, so that many programs do not all begin with the same.
fn shuffle(places: &mut [Place]) {
    use std::hash::{BuildHasher, RandomState};
    for left in (1..places.len()).rev() {
        let drawn = RandomState::new().hash_one(left) as usize % (left + 1);
        places.swap(left, drawn);
    }
}

/// Waits. No decision of the store hangs on this time.
pub(crate) async fn pause(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
