//! How the screen looks. State is shown by word as well as by colour, and
//! without `NO_COLOR` by one accent alone.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table};
use windlass_report::words::counted;

use super::model::Look;
use super::screen::{SECONDS, Screen};
use crate::output::{ago, plain, thousands};

/// Draws everything.
pub fn draw(frame: &mut Frame, screen: &Screen, colour: bool) {
    let accent = if colour { Style::new().fg(Color::Cyan) } else { Style::new() };
    let queues = screen.look.as_ref().map_or(1, |look| look.queues.len().clamp(1, 12));
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(4),
        Constraint::Length(u16::try_from(queues + 2).unwrap_or(14)),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]);
    let [head, charts, queues, running, failures, foot] = areas.areas(frame.area());
    draw_head(frame, head, screen, accent);
    draw_charts(frame, charts, screen, accent);
    match &screen.look {
        None => frame.render_widget(Paragraph::new("looking …"), queues),
        Some(look) => {
            draw_queues(frame, queues, screen, look, accent);
            draw_running(frame, running, look);
            draw_failures(frame, failures, look);
        }
    }
    draw_foot(frame, foot, screen);
}

fn draw_head(frame: &mut Frame, area: Rect, screen: &Screen, accent: Style) {
    let title = Span::styled("windlass top", accent.add_modifier(Modifier::BOLD));
    let mut first = vec![title, Span::raw(format!("  {}", plain(&screen.target)))];
    let mut second = String::new();
    if let Some(look) = &screen.look {
        first.push(Span::raw(format!("  {}", look.at)));
        let queued: u64 = look.queues.iter().map(|queue| queue.queued).sum();
        let running: u64 = look.queues.iter().map(|queue| queue.running).sum();
        second = format!(
            "{} queued   {} running   {} alive with {}",
            thousands(queued as f64),
            thousands(running as f64),
            counted(look.workers as u64, "worker"),
            counted(u64::from(look.slots), "slot")
        );
    }
    frame.render_widget(Paragraph::new(vec![Line::from(first), Line::from(second)]), area);
}

fn draw_charts(frame: &mut Frame, area: Rect, screen: &Screen, accent: Style) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    draw_chart(frame, left, "completed", &screen.done(), accent);
    draw_chart(frame, right, "failed attempts", &screen.failed(), Style::new());
}

fn draw_chart(frame: &mut Frame, area: Rect, what: &str, seconds: &[u64], style: Style) {
    let now = seconds.last().map_or("-".to_owned(), |now| thousands(*now as f64));
    let most = thousands(seconds.iter().copied().max().unwrap_or(0) as f64);
    let title = format!(" {what}: {now}/s, at most {most}/s in {SECONDS} s ");
    let wide = usize::from(area.width.saturating_sub(2));
    let shown = &seconds[seconds.len().saturating_sub(wide)..];
    let chart = Sparkline::default().data(shown).style(style);
    frame.render_widget(chart.block(Block::new().borders(Borders::ALL).title(title)), area);
}

fn draw_queues(frame: &mut Frame, area: Rect, screen: &Screen, look: &Look, accent: Style) {
    if look.queues.is_empty() {
        let text = "no queue has work; `windlass enqueue KIND` makes a job";
        return frame.render_widget(Paragraph::new(text).block(titled("queues")), area);
    }
    let rows = look.queues.iter().enumerate().map(|(at, queue)| {
        let limit = queue.policy.limit.map_or("-".to_owned(), |limit| limit.to_string());
        let pace = screen.pace(&queue.name).map_or("-".to_owned(), |pace| format!("{pace:.1}"));
        let row = Row::new([
            plain(queue.name.as_str()),
            thousands(queue.queued as f64),
            format!("{}/{limit}", queue.running),
            queue.oldest_due.map(|due| ago(due, look.at)).unwrap_or_default(),
            pace,
            if queue.paused { "paused" } else { "open" }.to_owned(),
        ]);
        if at == screen.selected { row.style(accent.add_modifier(Modifier::REVERSED)) } else { row }
    });
    // The selected queue stays in sight.
    let room = usize::from(area.height.saturating_sub(2)).max(1);
    let rows = rows.skip((screen.selected + 1).saturating_sub(room));
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let table = Table::new(rows, widths)
        .header(head(["queue", "queued", "running", "oldest", "done/s", "status"]))
        .block(Block::new().borders(Borders::TOP).title(" queues "));
    frame.render_widget(table, area);
}

fn draw_running(frame: &mut Frame, area: Rect, look: &Look) {
    let rows = look.running.iter().map(|job| {
        Row::new([
            job.id.clone(),
            job.kind.clone(),
            job.queue.clone(),
            job.worker.clone(),
            ago(job.since, look.at),
            job.progress.clone().unwrap_or_default(),
        ])
    });
    let widths = [
        Constraint::Length(36),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths)
        .header(head(["job", "kind", "queue", "worker", "since", "progress"]))
        .block(titled("running"));
    frame.render_widget(table, area);
}

fn draw_failures(frame: &mut Frame, area: Rect, look: &Look) {
    let rows = look
        .failures
        .iter()
        .map(|job| Row::new([job.id.clone(), job.kind.clone(), ago(job.at, look.at), job.error.clone()]));
    let widths = [Constraint::Length(36), Constraint::Fill(1), Constraint::Length(12), Constraint::Fill(3)];
    let table =
        Table::new(rows, widths).header(head(["job", "kind", "failed", "why"])).block(titled("failed"));
    frame.render_widget(table, area);
}

fn draw_foot(frame: &mut Frame, area: Rect, screen: &Screen) {
    let text = match (&screen.trouble, &screen.said, screen.help) {
        (Some(trouble), _, _) => format!("what you see is old: {}", plain(trouble)),
        (_, _, true) => "j k move   p pause or resume the queue   ? hide this   q quit".to_owned(),
        (_, Some(said), _) => said.clone(),
        _ => "? keys   q quit".to_owned(),
    };
    frame.render_widget(Paragraph::new(text), area);
}

fn titled(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}

fn head<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use windlass_engine::core::event::What;
    use windlass_engine::core::id::QueueName;
    use windlass_engine::core::policy::queue::QueuePolicy;
    use windlass_engine::core::query::QueueStatus;
    use windlass_engine::core::time::Time;

    use super::*;
    use crate::top::model::{Failure, Running};

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen, false)).unwrap();
        terminal.backend().to_string()
    }

    fn screen() -> Screen {
        let now = Time::from_ms(1_800_000_000_000);
        let name = QueueName::new("mail").unwrap();
        let mut screen = Screen::new("sqlite:windlass.db".into());
        let policy = QueuePolicy { limit: Some(5), ..QueuePolicy::default() };
        let oldest_due = Some(now.plus_ms(-90_000));
        let queue =
            QueueStatus { name: name.clone(), policy, paused: true, queued: 12_345, running: 2, oldest_due };
        let id = "0198c0de-0000-7000-8000-000000000001".to_owned();
        screen.see(Look {
            at: now,
            queues: vec![queue],
            workers: 1,
            slots: 4,
            running: vec![Running {
                id: id.clone(),
                kind: "send".into(),
                queue: "mail".into(),
                worker: "here/7".into(),
                since: now.plus_ms(-3_000),
                progress: Some("\"half\"".into()),
            }],
            failures: vec![Failure {
                id,
                kind: "send".into(),
                at: now.plus_ms(-60_000),
                error: "no luck".into(),
            }],
            happened: Some(vec![(name, What::Completed, 40)]),
        });
        screen
    }

    #[test]
    fn everything_is_on_the_screen() {
        let text = drawn(&screen(), 120, 30);
        for says in [
            "12,345 queued",
            "2 running",
            "1 worker alive with 4 slots",
            "completed: 40/s",
            "2/5",
            "90 s ago",
            "40.0",
            "paused",
            "here/7",
            "3 s ago",
            "half",
            "no luck",
            "q quit",
        ] {
            assert!(text.contains(says), "{says} is missing in\n{text}");
        }
    }

    #[test]
    fn no_screen_is_too_small() {
        for (width, height) in [(1, 1), (20, 5), (40, 10), (300, 3)] {
            drawn(&screen(), width, height);
            drawn(&Screen::new("x".into()), width, height);
        }
    }

    #[test]
    fn trouble_leaves_the_old_look_in_place() {
        let mut screen = screen();
        screen.trouble = Some("the store did not answer\u{1b}[2J".into());
        let text = drawn(&screen, 120, 30);
        assert!(text.contains("what you see is old") && text.contains("12,345"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
