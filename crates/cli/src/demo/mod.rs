//! `windlass demo`: all of it at once, with nothing to set up. A server, the workers as programs of their own,
//! local stand-ins for whoever they ask, and somebody who makes things happen.
//!
//! What is remembered stands in one folder, so a second start goes on where the first has ended. The workers are the
//! ones that users run: this starts them with other addresses in their settings, and with nothing else that is
//! different.

mod crew;
mod door;
mod folder;
mod left;
#[cfg(feature = "listener")]
mod mongo;
mod outside;
mod play;
mod postgres;
mod relay;
mod scene;
mod talk;

use std::sync::Arc;

use windlass_app::Stop;
use windlass_engine::world::{RealWorld, World};

use crew::Crew;
use folder::Folder;
use outside::Outside;
use scene::Scene;

/// How the demo is run.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Where everything is kept.
    pub folder: std::path::PathBuf,
    /// How many times as fast as usual things happen.
    pub speed: f64,
    /// Where its page is.
    pub port: u16,
    /// What there is to see is told to a program.
    pub json: bool,
}

/// The name under which a child learns that it must not outlive the demo.
pub const ENDS_WITH_PARENT: &str = "WINDLASS_ENDS_WITH_ITS_PARENT";

/// A program that the demo has started ends when the demo is gone, also when that was killed.
pub fn end_with_parent() {
    if std::env::var_os(ENDS_WITH_PARENT).is_some() {
        // On a system that has no such thing, it is ended by Ctrl-C alone.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
}

/// Runs it until SIGINT or SIGTERM.
pub async fn run(wish: Wish) -> anyhow::Result<()> {
    let world: Arc<dyn World> = Arc::new(RealWorld::new());
    let mut folder = Folder::open(&wish.folder, &*world).await?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", folder.port("page", wish.port)?)).await?;
    let stop = Stop::on_signals()?;
    let outside = Arc::new(Outside::start(&mut folder).await?);
    let scene = Arc::new(Scene::set(&mut folder, &outside, wish.speed, &world).await?);
    folder.save()?;
    let crew = Arc::new(Crew::new(scene.clone(), world.clone()));
    let port = listener.local_addr()?.port();
    match wish.json {
        true => crate::output::print_json(&told(&scene, port))?,
        false => welcome(&scene, port, folder.is_new()),
    }
    let door =
        door::serve(listener, scene.clone(), crew.clone(), outside.clone(), world.clone(), stop.clone());
    let play = play::run(scene.clone(), outside, world.clone(), stop.clone());
    let (ended, door, ()) = tokio::join!(crew.run(stop.clone()), door, play);
    scene.end().await;
    door?;
    ended
}

/// The same as [`welcome`], for programs.
fn told(scene: &Scene, port: u16) -> serde_json::Value {
    let workers = scene
        .members
        .iter()
        .map(|member| serde_json::json!({ "name": member.name, "url": member.link, "about": member.about }));
    let absent = scene.absent.iter().map(|(name, why)| serde_json::json!({ "name": name, "why": why }));
    let tries = scene.tries(port);
    let tries = tries.iter().map(|(what, command)| serde_json::json!({ "what": what, "command": command }));
    serde_json::json!({
        "url": format!("http://127.0.0.1:{port}/"),
        "folder": scene.folder,
        "workers": workers.collect::<Vec<_>>(),
        "absent": absent.collect::<Vec<_>>(),
        "tries": tries.collect::<Vec<_>>(),
    })
}

/// What there is to see, and five things to try.
fn welcome(scene: &Scene, port: u16, is_new: bool) {
    use std::fmt::Write as _;
    let mut text = String::new();
    let began = if is_new { "begins in" } else { "goes on in" };
    let _ = writeln!(text, "The demo {began} {}\n", scene.folder.display());
    let _ = writeln!(text, "  http://127.0.0.1:{port}/   all workers on one page\n");
    let here = scene.members.iter().map(|member| (member.link.clone(), member.about));
    let absent = scene.absent.iter().map(|(name, why)| (format!("({name} is not here)"), why.as_str()));
    let lines: Vec<(String, &str)> = here.chain(absent).collect();
    let width = lines.iter().map(|(at, _)| at.len()).max().unwrap_or_default();
    for (at, what) in &lines {
        let _ = writeln!(text, "  {at:<width$}   {what}");
    }
    let _ = writeln!(text, "\nFive things to try, in another terminal:");
    for (number, (what, command)) in scene.tries(port).iter().enumerate() {
        let _ = writeln!(text, "\n  {}. {what}\n     {command}", number + 1);
    }
    let _ = writeln!(text, "\nLogs are in {}. Ctrl-C ends all of it.", scene.folder.join("logs").display());
    crate::say!("{}", text.trim_end());
}
