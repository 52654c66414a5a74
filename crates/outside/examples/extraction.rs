//! How fast readable text is taken out of pages, on one core.
//!
//!     cargo run --release -p windlass-outside --example extraction -- PAGE.html …
//!
//! Each page is read as often as it takes to fill two seconds in all; what is counted is the HTML that went in.
//! Without pages, one is made up.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::{Duration, Instant};

use windlass_outside::article::text;

const CHARS_MAX: usize = 10_240;

fn main() -> std::io::Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let mut pages = Vec::new();
    for file in &files {
        pages.push(String::from_utf8_lossy(&std::fs::read(file)?).into_owned());
    }
    if pages.is_empty() {
        pages.push(made_up());
    }
    let (mut bytes, mut chars, mut rounds, mut empty) = (0, 0, 0, 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        empty = 0;
        for page in &pages {
            let text = text(page, CHARS_MAX);
            bytes += page.len();
            chars += text.chars().count();
            empty += usize::from(text.is_empty());
        }
        rounds += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let rate = bytes as f64 / 1e6 / seconds;
    println!(
        "{} pages, {rounds} rounds, {:.1} MB in {seconds:.2} s: {rate:.1} MB/s; {empty} without text, {} characters a page",
        pages.len(),
        bytes as f64 / 1e6,
        chars / (rounds * pages.len()),
    );
    Ok(())
}

fn made_up() -> String {
    let paragraph = "<p class=\"text body\">The <b>price</b> of <a href=\"/btc\">Bitcoin</a> rose again on Tuesday, \
        traders said, and the market took note of it, as it does.</p>";
    let link = "<li class=\"item\"><a href=\"/section\"><span class=\"icon\"></span>Section</a></li>";
    let script = "<script>window.track = function (a) { return a < 1 ? '<p>' : a; };</script>";
    format!(
        "<html><head><title>Bitcoin</title>{}</head><body><nav><ul>{}</ul></nav><article>{}</article></body></html>",
        script.repeat(300),
        link.repeat(300),
        paragraph.repeat(200)
    )
}
