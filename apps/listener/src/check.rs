//! `check`: what is right and what is wrong with the server and the listeners.

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use windlass_app::{Check, Finding, Host};
use windlass_mongo::agenda::INDEX_NAME;

use crate::home::Home;
use crate::listener::{Listener, Neighbour, validate};
use crate::office;
use crate::settings::{Place, Work};

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
    let names = home.jobs.list_index_names().await.unwrap_or_default();
    found.push(if names.iter().any(|name| name == INDEX_NAME) {
        Finding::fine(format!("{}.{} has the index {INDEX_NAME}", home.database, home.jobs_name))
    } else {
        Finding::wrong(
            format!("{}.{} has no index {INDEX_NAME}", home.database, home.jobs_name),
            "run `windlass listener init`; without it every look for work reads all rows",
        )
    });
    match home.oldest().await {
        Ok(Some(_)) => found.push(Finding::fine("the oplog can be read, so that status shows how long it reaches back")),
        _ => found.push(Finding::wrong(
            "the oplog cannot be read",
            "allow this user to read local.oplog.rs; without it status does not show how long it reaches back",
        )),
    }
}

async fn listeners(home: &Home, found: &mut Vec<Finding>) {
    let documents: Vec<Document> = match office::list(home).await {
        Ok(documents) => documents,
        Err(why) => return found.push(Finding::wrong("the listeners cannot be read", why.to_string())),
    };
    let read: Vec<Listener> = documents.iter().filter_map(|document| Listener::read(document).ok()).collect();
    for document in &documents {
        let id = document.get("_id").map(crate::event::id_text).unwrap_or_default();
        let neighbours: Vec<Neighbour<'_>> = read.iter().map(Neighbour).collect();
        found.push(match validate(document, &home.database, &home.own_names(), &neighbours) {
            Ok(_) => Finding::fine(format!("listener {id}")),
            Err(wrong) => Finding::wrong(format!("listener {id}"), wrong.join("; ")),
        });
    }
}
