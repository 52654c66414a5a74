//! Charts as plain SVG: a few lines over the last minutes or hours, with their unit and
//! their span beside them in text.

use std::fmt::Write;

use maud::{Markup, html};
use windlass_report::words::number;

use super::bits::length;

/// The drawing's own units; the page stretches it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// What a chart shows.
pub(super) struct Chart<'a> {
    pub name: &'a str,
    /// What one unit of height is.
    pub unit: Unit,
    /// How far back it goes.
    pub span_ms: u64,
    pub lines: Vec<Line<'a>>,
}

/// How heights are written.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    PerSecond,
    PerMinute,
    Ms,
}

/// One line, oldest point first; nothing where nothing is known.
pub(super) struct Line<'a> {
    pub name: &'a str,
    /// `main`, `second` or `bad`: how it is drawn.
    pub class: &'static str,
    pub points: Vec<Option<f64>>,
    /// The area below is filled.
    pub filled: bool,
    /// What to say of it beside its name; its newest point when left out.
    pub said: Option<String>,
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            Self::PerSecond if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}/s"),
            Self::PerSecond => format!("{value:.1}/s"),
            Self::PerMinute if value >= 10.0 || value.fract() == 0.0 => {
                format!("{}/min", number(value.round() as u64))
            }
            Self::PerMinute => format!("{value:.1}/min"),
            Self::Ms => length(value as u64).replace(".0 s", " s"),
        }
    }
}

/// The chart as a figure.
pub(super) fn chart(chart: &Chart<'_>) -> Markup {
    let highest =
        chart.lines.iter().flat_map(|line| line.points.iter().flatten()).fold(0.0, |a: f64, b| a.max(*b));
    let top = nice(highest);
    let label = format!("{}: the last {}, up to {}", chart.name, back(chart.span_ms), chart.unit.write(top));
    html! {
        figure.chart {
            figcaption {
                b { (chart.name) }
                @for line in &chart.lines {
                    span class={ "legend " (line.class) } {
                        svg width="12" height="3" aria-hidden="true" { rect width="12" height="3" {} }
                        (line.name) " "
                        span.num { (said(chart.unit, line)) }
                    }
                }
            }
            div.plot {
                span.top.num { (chart.unit.write(top)) }
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
                    path.grid d=(format!("M0 0.5H{WIDTH}M0 {0}H{WIDTH}M0 {1}H{WIDTH}", HEIGHT / 2.0, HEIGHT - 0.5)) {}
                    @for line in &chart.lines {
                        @if line.filled { path class={ "area " (line.class) } d=(area(&line.points, top)) {} }
                        path class={ "line " (line.class) } d=(path(&line.points, top)) {}
                    }
                    (columns(chart))
                }
                span.from { (back(chart.span_ms)) " ago" }
                span.to { "now" }
            }
        }
    }
}

/// A column for each moment, which says what all lines were then to whoever points at it.
fn columns(chart: &Chart<'_>) -> Markup {
    let points = chart.lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let wide = WIDTH / points.max(1) as f64;
    let said = |index: usize| {
        let back_ms = chart.span_ms as f64 * (points - index) as f64 / points.max(1) as f64;
        let values = chart.lines.iter().filter_map(|line| {
            let value = line.points.get(index).copied().flatten()?;
            Some(format!("{} {}", line.name, chart.unit.write(value)))
        });
        let values = values.collect::<Vec<_>>().join("\n");
        (!values.is_empty()).then(|| format!("{} ago\n{values}", length(back_ms as u64)))
    };
    html! {
        @for index in 0..points {
            @if let Some(said) = said(index) {
                rect.column x=(format!("{:.1}", wide * index as f64)) y="0" width=(format!("{wide:.1}")) height=(HEIGHT) { title { (said) } }
            }
        }
    }
}

/// Without the long stretches of zero, which would hide the line below them.
pub(super) fn lifted(points: &[f64]) -> Vec<Option<f64>> {
    let near = |at: usize| &points[at.saturating_sub(1)..(at + 2).min(points.len())];
    let is_lifted = |at: usize| near(at).iter().any(|point| *point > 0.0);
    points.iter().enumerate().map(|(at, point)| is_lifted(at).then_some(*point)).collect()
}

/// How far back, in whole hours or minutes.
fn back(ms: u64) -> String {
    let minutes = ms / 60_000;
    if minutes >= 60 { format!("{} h", minutes / 60) } else { format!("{minutes} min") }
}

fn said(unit: Unit, line: &Line<'_>) -> String {
    if let Some(said) = &line.said {
        return said.clone();
    }
    line.points.last().copied().flatten().map_or_else(|| "–".to_owned(), |value| unit.write(value))
}

/// The next of 1, 2, 5 times a power of ten.
fn nice(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(highest.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= highest);
    step.unwrap_or(10.0) * power
}

fn at(points: usize, index: usize) -> f64 {
    WIDTH * index as f64 / points.saturating_sub(1).max(1) as f64
}

fn height(value: f64, top: f64) -> f64 {
    // A line along the very edge would be cut in half.
    HEIGHT - 1.0 - value / top * (HEIGHT - 2.0)
}

fn path(points: &[Option<f64>], top: f64) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for (index, value) in points.iter().enumerate() {
        let Some(value) = value else {
            pen_down = false;
            continue;
        };
        let command = if pen_down { 'L' } else { 'M' };
        // Writing to a String cannot fail. A lone point is drawn as a dot.
        let _ = write!(path, "{command}{:.1} {:.1}", at(points.len(), index), height(*value, top));
        if !pen_down {
            path.push_str("h0.1");
        }
        pen_down = true;
    }
    path
}

fn area(points: &[Option<f64>], top: f64) -> String {
    let mut path = format!("M0 {HEIGHT}");
    for (index, value) in points.iter().enumerate() {
        let _ = write!(path, "L{:.1} {:.1}", at(points.len(), index), height(value.unwrap_or(0.0), top));
    }
    path.push_str(&format!("L{WIDTH} {HEIGHT}Z"));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        for (highest, top) in [(0.0, 1.0), (0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (730.0, 1_000.0), (20.0, 20.0)]
        {
            assert!((nice(highest) - top).abs() < 1e-9, "{highest}");
        }
    }

    #[test]
    fn gaps_lift_the_pen() {
        let drawn = path(&[Some(0.0), None, Some(1.0), Some(1.0)], 1.0);
        assert_eq!(drawn, "M0.0 99.0h0.1M400.0 1.0h0.1L600.0 1.0");
    }
}
