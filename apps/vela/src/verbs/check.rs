//! `windlass vela check`: what is in order and what is not, before anything runs. It asks Etsy once, which counts as a
//! call of the day, and makes the store where there is none; it changes nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use windlass_app::door::is_exposed;
use windlass_app::{AppError, Exit, Finding, Host, say_findings};
use windlass_engine::{Client, Store};
use windlass_outside::etsy::EtsyError;

use crate::book::Shelves;
use crate::settings::{self, DoorSettings, EtsySettings, TaskSettings, WorkerSettings};
use crate::sync::Sync;

/// A wait for the limit of calls that is longer than this is not waited for.
const WAIT_MS_MAX: u64 = 5_000;

struct All {
    tasks: TaskSettings,
    etsy: EtsySettings,
    door: DoorSettings,
}

pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let mut found = Vec::new();
    let all = settings::read(&host.environment, |reading| {
        let (tasks, _) = (TaskSettings::read(reading), WorkerSettings::read(reading));
        All { etsy: EtsySettings::read(reading, tasks.lease), door: DoorSettings::read(reading), tasks }
    });
    let all = match all {
        Ok(all) => {
            found.push(Finding::fine("settings: all that is needed is there"));
            Some(all)
        }
        Err(error) => {
            found.push(Finding::wrong("settings: something is missing or wrong", error.to_string()));
            None
        }
    };
    let store = open(host).await;
    found.push(match &store {
        Ok(_) => Finding::fine("store: it can be opened, and keeps shops and listings"),
        Err(error) => Finding::wrong("store: it cannot be used", format!("{error}; look at VELA_STORE")),
    });
    if let Some(all) = &all {
        found.push(door(&all.door));
    }
    if let (Some(all), Ok(store)) = (&all, &store) {
        found.push(etsy(host, store.clone(), all).await);
    }
    if let Ok(store) = store {
        found.push(shops(host, store).await);
    }
    Ok(say_findings(&found, host.json))
}

async fn open(host: &Host) -> Result<Arc<dyn Store>, AppError> {
    let url = settings::read(&host.environment, settings::store)?;
    let store = host.stores.open(&url).await?;
    store.records()?;
    Ok(store)
}

/// Whether it may listen where it is told to. It may do so already, so nobody tries.
fn door(door: &DoorSettings) -> Finding {
    let what = format!("door: {}", door.listen);
    match door.listen.parse::<SocketAddr>() {
        Ok(address) if is_exposed(address) && door.token.is_none() => {
            Finding::wrong(what, "set VELA_TOKEN, or let VELA_LISTEN be an address of this machine")
        }
        _ => Finding::fine(what),
    }
}

/// Whether Etsy takes the app's key.
async fn etsy(host: &Host, store: Arc<dyn Store>, all: &All) -> Finding {
    match ping(host, store, all).await {
        Ok(Ok(())) => Finding::fine("Etsy: it answers, and takes the app's key"),
        Ok(Err(error)) => match &error {
            EtsyError::Forbidden { said } => {
                let to_do =
                    format!("set ETSY_KEYSTRING and ETSY_SHARED_SECRET as Etsy shows them; it says: {said}");
                Finding::wrong("Etsy: it does not take the app's key", to_do)
            }
            error => Finding::wrong("Etsy: it does not answer as it should", error.to_string()),
        },
        Err(error) => Finding::wrong("Etsy: it was not asked", error.to_string()),
    }
}

async fn ping(host: &Host, store: Arc<dyn Store>, all: &All) -> Result<Result<(), EtsyError>, AppError> {
    let sync = Sync::new(store, host.world.clone(), &all.etsy, &all.tasks)?;
    // No shop has this number: where shops are counted apart, this is counted apart from all of them.
    let permit = loop {
        match sync.gate.ask(0, true).await? {
            Ok(permit) => break permit,
            Err(ms) if ms > WAIT_MS_MAX => {
                return Err(format!("the limit of calls is reached; ask again in {} s", ms / 1_000).into());
            }
            Err(ms) => sync.world.sleep_ms(ms).await,
        }
    };
    let told = sync.etsy.ping().await;
    sync.gate.ended(permit, told.quota).await?;
    Ok(told.said.map(drop))
}

/// How many shops there are, and which of them wait for their sellers.
async fn shops(host: &Host, store: Arc<dyn Store>) -> Finding {
    let shelves = Shelves::of(&Client::in_world(store, host.world.clone()));
    let connections = match shelves.connections.scan().all().await {
        Ok(connections) => connections,
        Err(error) => return Finding::wrong("shops: they cannot be read", error.to_string()),
    };
    let lost: Vec<&str> = connections
        .iter()
        .filter(|connection| connection.value.lost.is_some())
        .map(|connection| connection.key.as_str())
        .collect();
    let what = format!("shops: {} connected", connections.len() - lost.len());
    match lost.first() {
        None => Finding::fine(what),
        Some(first) => Finding::wrong(
            format!("{what}, {} not any more", lost.len()),
            format!("let the sellers consent again, beginning with `windlass vela connect {first}`"),
        ),
    }
}
