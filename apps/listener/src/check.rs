//! `check`: what is right and what is wrong with the server and the listeners.

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use windlass_app::{Check, Finding, Host};
use windlass_mongo::agenda::{self, Finding as Lack, INDEX_NAME};

use crate::home::Home;
use crate::listener::refused;
use crate::office;
use crate::settings::{JobsTarget, Place, Work};

/// Looks at the server.
pub(crate) struct ServerCheck;

#[async_trait]
impl Check for ServerCheck {
    async fn look(&self, host: &Host) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Err(why) = Work::read(&host.environment) {
            found.push(Finding::wrong("the settings", why.to_string()));
        }
        let place = match Place::read(&host.environment) {
            Ok(place) => place,
            Err(why) => {
                found.push(Finding::wrong("the settings", why.to_string()));
                return found;
            }
        };
        match Home::open(&place, host.world.clone()).await {
            Ok(home) => {
                found.push(Finding::fine("MongoDB answers, and is a replica set"));
                server(&home, &mut found).await;
                listeners(&home, &mut found).await;
            }
            Err(why) => found.push(Finding::wrong("MongoDB", why.to_string())),
        }
        found
    }
}

async fn server(home: &Home, found: &mut Vec<Finding>) {
    let version = home.client.database("admin").run_command(doc! { "buildInfo": 1 }).await;
    let version =
        version.ok().and_then(|info| info.get_str("version").map(str::to_owned).ok()).unwrap_or_default();
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    found.push(match major {
        0..=5 => Finding::wrong(
            format!("the server is of version {version}"),
            "use 6.0 or newer: images of changes are asked for",
        ),
        _ => Finding::fine(format!("the server is of version {version}")),
    });
    match home.target {
        JobsTarget::Agenda => rows(home, found).await,
        JobsTarget::Windlass => match home.store().await {
            Ok(_) => found.push(Finding::fine(format!("the store in {} can be read", home.database))),
            Err(why) => found.push(Finding::wrong("the store cannot be opened", why.to_string())),
        },
    }
    match home.oldest().await {
        Ok(Some(_)) => found.push(Finding::fine("the oplog can be read, so that status shows how long it reaches back")),
        _ => found.push(Finding::wrong(
            "the oplog cannot be read",
            "allow this user to read local.oplog.rs; without it status does not show how long it reaches back",
        )),
    }
}

/// What Agenda's rows lack.
async fn rows(home: &Home, found: &mut Vec<Finding>) {
    let name = format!("{}.{}", home.database, home.jobs_name);
    let lacks = agenda::check(&home.jobs, home.lock_lifetime_ms).await;
    match lacks {
        Ok(lacks) => {
            let is_there = lacks.iter().all(|lack| !lack.what.starts_with("there is no collection"));
            if is_there && !lacks.iter().any(|lack| lack.what.contains(INDEX_NAME)) {
                found.push(Finding::fine(format!("{name} has the index {INDEX_NAME}")));
            }
            let finding = |lack: Lack| match lack.is_note {
                true => Finding::fine(format!("{}; {}", lack.what, lack.then)),
                false => Finding::wrong(lack.what, format!("{}, or run `windlass listener init`", lack.then)),
            };
            found.extend(lacks.into_iter().map(finding));
        }
        Err(why) => found.push(Finding::wrong(format!("{name} cannot be looked at"), why.to_string())),
    }
}

async fn listeners(home: &Home, found: &mut Vec<Finding>) {
    let documents: Vec<Document> = match office::list(home).await {
        Ok(documents) => documents,
        Err(why) => return found.push(Finding::wrong("the listeners cannot be read", why.to_string())),
    };
    let refused = refused(&documents, &home.database, &home.own_names());
    for document in &documents {
        let id = document.get("_id").map(crate::event::id_text).unwrap_or_default();
        found.push(match refused.get(&id) {
            None => Finding::fine(format!("listener {id}")),
            Some(why) => Finding::wrong(format!("listener {id}"), why),
        });
    }
}
