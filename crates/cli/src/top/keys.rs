//! What the keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// End.
    Quit,
    /// Move to another queue.
    Go(isize),
    /// Pause the queue, or let it go on.
    Pause,
    /// Show or hide the keys.
    Help,
}

/// What a key asks for, if anything.
pub fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match (key.code, key.modifiers) {
        (KeyCode::Char('c'), KeyModifiers::CONTROL) => Some(Wish::Quit),
        (KeyCode::Char('q') | KeyCode::Esc, _) => Some(Wish::Quit),
        (KeyCode::Char('j') | KeyCode::Down, _) => Some(Wish::Go(1)),
        (KeyCode::Char('k') | KeyCode::Up, _) => Some(Wish::Go(-1)),
        (KeyCode::Char('p'), _) => Some(Wish::Pause),
        (KeyCode::Char('?' | 'h'), _) => Some(Wish::Help),
        _ => None,
    }
}
