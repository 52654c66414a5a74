//! Measures how much HTML becomes readable text in a second, on one core: what the processor does with a page
//! between the network and the model.
//!
//! ```sh
//! cargo run --release -p windlass-bitcoin-news --example extract_bench            # pages that are made up here
//! cargo run --release -p windlass-bitcoin-news --example extract_bench -- FOLDER  # all *.html of a folder
//! cargo run --release -p windlass-bitcoin-news --example extract_bench -- --worst # nothing but tags, 2 MiB each
//! ```
//!
//! Time is that of the thread's own work, so that what else runs on the machine does not count. Each round reads
//! every page once; what is said is the median of the rounds, and the slowest pages.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use windlass_outside::article::{HTML_BYTES_MAX, text};

const ROUNDS: usize = 7;
const SLOWEST_SHOWN: usize = 6;
/// As MAX_CONTENT_CHARS when nothing is said.
const CHARS_MAX: usize = 10_240;

struct Page {
    name: String,
    html: String,
    /// The work of each round.
    took_us: Vec<u64>,
    chars: usize,
}

fn main() {
    let mut pages = match std::env::args().nth(1).as_deref() {
        Some("--worst") => worst(),
        Some(folder) => of_folder(Path::new(folder)),
        None => made_up(),
    };
    assert!(!pages.is_empty(), "there is no *.html in that folder");
    let bytes: usize = pages.iter().map(|page| page.html.len()).sum();
    let mut rounds: Vec<u64> = (0..ROUNDS).map(|_| pages.iter_mut().map(read).sum()).collect();
    rounds.sort_unstable();
    let median_us = rounds[ROUNDS / 2];
    let empty = pages.iter().filter(|page| page.chars == 0).count();
    println!(
        "{} pages, {:.1} MB of HTML, {empty} without text: {:.1} MB a second (median of {ROUNDS} rounds; {:.1} to {:.1})",
        pages.len(),
        bytes as f64 / 1e6,
        speed(bytes, median_us),
        speed(bytes, rounds[ROUNDS - 1]),
        speed(bytes, rounds[0]),
    );
    pages.sort_by_key(|page| std::cmp::Reverse(median(&page.took_us)));
    for page in pages.iter().take(SLOWEST_SHOWN) {
        let took_us = median(&page.took_us);
        println!(
            "  {:<40} {:>8} bytes {:>7} us {:>6.1} MB/s {:>6} characters",
            page.name,
            page.html.len(),
            took_us,
            speed(page.html.len(), took_us),
            page.chars
        );
    }
}

fn read(page: &mut Page) -> u64 {
    let began_us = work_us();
    page.chars = text(&page.html, CHARS_MAX).chars().count();
    let took_us = work_us() - began_us;
    page.took_us.push(took_us);
    took_us
}

/// How long this thread has worked so far.
fn work_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

fn median(took_us: &[u64]) -> u64 {
    let mut sorted = took_us.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn speed(bytes: usize, took_us: u64) -> f64 {
    bytes as f64 / took_us.max(1) as f64
}

fn of_folder(folder: &Path) -> Vec<Page> {
    let entries = std::fs::read_dir(folder).expect("a folder of pages");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let pages = paths.filter(|path| path.extension().is_some_and(|extension| extension == "html"));
    pages
        .filter_map(|path| {
            let html = std::fs::read(&path).ok()?;
            let name = path.file_stem()?.to_string_lossy().into_owned();
            Some(Page {
                name,
                html: String::from_utf8_lossy(&html).into_owned(),
                took_us: Vec::new(),
                chars: 0,
            })
        })
        .collect()
}

/// What no newspaper has: as many tags as a page can hold.
fn worst() -> Vec<Page> {
    let pieces = [
        "<div>x",
        "<p>x",
        "<p>words, and more words</p>",
        "<a href=x>y</a>",
        "<table><tr><td>x",
        "<ul><li>x</ul>",
        "<span class=x>y</span>",
        "<div class='a b c' id=d>x</div>",
        "<br>",
        "</div>",
        "<",
        "&amp;",
    ];
    let page = |piece: &&str| {
        let html = piece.repeat(HTML_BYTES_MAX / piece.len());
        Page { name: (*piece).to_owned(), html, took_us: Vec::new(), chars: 0 }
    };
    pieces.iter().map(page).collect()
}

/// Pages with the proportions of those of newspapers: from a third to two thirds are scripts and styles, most tags
/// are of menus, teasers and boxes around the article, and a tenth of the bytes is what people read.
fn made_up() -> Vec<Page> {
    (0..60).map(page).collect()
}

fn page(number: usize) -> Page {
    let (scripts, teasers, paragraphs) = (4 + number % 9, 20 + number * 3, 8 + number % 40);
    let script = "<script>window.__data=window.__data||[];window.__data.push({\"slot\":\"mid\",\"sizes\":[[300,250],[728,90]],\
        \"path\":\"/1234/news\",\"keys\":{\"section\":\"markets\",\"tags\":[\"btc\",\"etf\"]}});</script>";
    let style = "<style>.card--wide .card__title>a:hover{color:#1a73e8;text-decoration:underline}@media(min-width:60em)\
        {.card{display:grid;grid-template-columns:1fr 2fr;gap:1.5rem}}</style>";
    let teaser = "<li class=\"card card--wide\" data-track=\"teaser\" data-id=\"98123\"><div class=\"card__media\">\
        <a href=\"/markets/2026/01/02/a-report\" tabindex=\"-1\"><picture><source srcset=\"/i/1.webp 1x, /i/2.webp 2x\" \
        type=\"image/webp\"><img src=\"/i/1.jpg\" alt=\"\" loading=\"lazy\" width=\"300\" height=\"200\"></picture></a></div>\
        <div class=\"card__body\"><span class=\"kicker\">Markets</span><h3 class=\"card__title\"><a href=\"/markets/a\">What the \
        report says</a></h3><time datetime=\"2026-01-02\">2 January</time><svg viewBox=\"0 0 24 24\"><path d=\"M3 3h18v18z\"/>\
        </svg></div></li>\n";
    let paragraph = "<p class=\"body-text\">Bitcoin rose by <strong>four percent</strong> on Tuesday, traders said, after \
        <a href=\"/report\" class=\"link\">a report</a> that, as analysts put it, &ldquo;nobody had expected&rdquo;, and the \
        market took note of it: volumes were higher than on any day of the quarter.</p>\n\
        <div class=\"ad-slot\" id=\"mid\"><div class=\"ad-slot__inner\"></div></div>\n";
    let html = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Bitcoin report {number}</title>{}{}</head>\
         <body class=\"page\"><header class=\"masthead\"><nav class=\"menu\"><ul>{}</ul></nav></header>\
         <main id=\"content\"><div class=\"grid\"><div class=\"grid__main\"><article class=\"story\"><h1>Bitcoin report \
         {number}</h1>{}</article></div><aside class=\"sidebar\"><ul>{}</ul></aside></div></main>\
         <footer class=\"footer\"><ul>{}</ul></footer>{}</body></html>",
        script.repeat(scripts * 20),
        style.repeat(scripts * 12),
        "<li class=\"menu__item\"><a href=\"/section\" class=\"menu__link\">Section</a></li>".repeat(40),
        paragraph.repeat(paragraphs),
        teaser.repeat(teasers),
        "<li><a href=\"/about\">About us</a></li>".repeat(30),
        script.repeat(scripts * 15),
    );
    Page { name: format!("made up {number}"), html, took_us: Vec::new(), chars: 0 }
}
