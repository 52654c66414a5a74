//! The screen while it is shown: looks each second, and acts on keys.

use std::io::IsTerminal;
use std::sync::Arc;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use windlass_engine::core::event::Position;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Clock;
use windlass_engine::world::{RealWorld, World};

use super::{Screen, Wish, draw, look, wish};

/// How often the store is asked.
const EVERY_MS: u64 = 1_000;

/// Shows the store until q; `place` is what it is called.
pub async fn show(store: Arc<dyn Store>, place: String) -> anyhow::Result<()> {
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "top needs a terminal; `windlass top --json` gives one look to programs"
    );
    let mut terminal = ratatui::try_init()?;
    let ended = live(&mut terminal, store, Screen::new(place)).await;
    ratatui::try_restore()?;
    ended
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
