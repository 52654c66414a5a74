//! `windlass top`: a live screen of queues, running jobs and failures.

use std::io::IsTerminal;
use std::sync::Arc;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use windlass_engine::core::event::Position;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Clock;
use windlass_engine::world::{RealWorld, World};

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::top::{Screen, Wish, draw, look, wish};
use crate::wiring::{open_place, without_password};

/// How often the store is asked.
const EVERY_MS: u64 = 1_000;

/// What to look at.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: j k move, p pause or resume the queue, ? help, q quit.\n\nExamples:\n  windlass top\n  \
    windlass top --url http://127.0.0.1:7717\n  windlass top --json   (one look, for programs)"
)]
pub struct TopArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Shows it until q.
pub async fn run(args: TopArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    if json {
        print_json(&look(&*store, &mut None).await?)?;
        return Ok(Code::Done);
    }
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "top needs a terminal; `windlass top --json` gives one look to programs"
    );
    let mut terminal = ratatui::try_init()?;
    let screen = Screen::new(without_password(&args.place.target()));
    let ended = live(&mut terminal, store, screen).await;
    ratatui::try_restore()?;
    ended.map(|()| Code::Done)
}

async fn live(
    terminal: &mut DefaultTerminal,
    store: Arc<dyn Store>,
    mut screen: Screen,
) -> anyhow::Result<()> {
    let world = RealWorld::new();
    let colour = std::env::var_os("NO_COLOR").is_none();
    let mut events = terminal_events();
    let mut since: Option<Position> = None;
    loop {
        match look(&*store, &mut since).await {
            Ok(look) => screen.see(look),
            Err(error) => screen.trouble = Some(error.to_string()),
        }
        let due_ms = world.boot_ms() + EVERY_MS;
        loop {
            terminal.draw(|frame| draw(frame, &screen, colour))?;
            tokio::select! {
                () = world.sleep_ms(due_ms.saturating_sub(world.boot_ms())) => break,
                event = events.recv() => {
                    let Some(event) = event else { return Ok(()) };
                    let asked = event.as_key_event().and_then(wish);
                    if asked == Some(Wish::Quit) {
                        return Ok(());
                    }
                    if let Some(asked) = asked {
                        act(&*store, &mut screen, asked).await;
                    }
                }
            }
        }
    }
}

async fn act(store: &dyn Store, screen: &mut Screen, asked: Wish) {
    screen.said = None;
    match asked {
        Wish::Quit => {}
        Wish::Go(by) => screen.go(by),
        Wish::Help => screen.help = !screen.help,
        Wish::Pause => {
            let Some(queue) = screen.queue() else { return };
            let (name, paused) = (queue.name.clone(), !queue.paused);
            let word = if paused { "is paused; running jobs go on" } else { "goes on" };
            match store.pause_queue(name.clone(), paused).await {
                Ok(()) => screen.said = Some(format!("{} {word}", crate::output::plain(name.as_str()))),
                Err(error) => screen.trouble = Some(error.to_string()),
            }
        }
    }
}

/// Keys and changes of size, read on a thread of their own. It ends with the program.
fn terminal_events() -> mpsc::Receiver<Event> {
    let (sends, receives) = mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sends.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receives
}
